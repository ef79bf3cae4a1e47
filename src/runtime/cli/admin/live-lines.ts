/** Lines that change while work goes on: rewritten in place on a terminal, and one below the other in a pipe. */
export interface LiveLines {
  /** Replaces the lines before. In a pipe, only lines that are new. */
  show(lines: readonly string[]): void;
  /** Removes them from a terminal. */
  clear(): void;
}

const clearLine = '\r\u001b[K';
const upOne = '\u001b[1A';

export function openLiveLines(
  out: Pick<NodeJS.WriteStream, 'write'> & { readonly isTTY?: boolean; readonly columns?: number },
): LiveLines {
  let shown: readonly string[] = [];
  const isTerminal = out.isTTY === true;
  const clear = (): void => {
    // What a pipe has got stays there, so that it does not get the same line again.
    if (!isTerminal) return;
    if (shown.length > 0) out.write(clearLine + (upOne + clearLine).repeat(shown.length - 1));
    shown = [];
  };
  return {
    clear,
    show(lines) {
      if (isTerminal) {
        clear();
        // A line that wraps would not be removed as a whole.
        const width = Math.max(20, (out.columns ?? 80) - 1);
        out.write(lines.map((line) => line.slice(0, width)).join('\n'));
      } else for (const line of lines) if (!shown.includes(line)) out.write(`${line}\n`);
      shown = lines;
    },
  };
}
