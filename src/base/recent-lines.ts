/** The last lines of the log of this process, for operators. Warnings and errors have a ring of their own. */
import { copyStart, RecentEntries, type Timed } from './recent-entries.ts';

/** Lines that are kept; with their length, at most 5 MiB. */
const sizes = { severe: 200, other: 1_000 } as const;
const lineMax = 4_096;
const isSevere = /^.{0,60}"level":"(?:WARN|ERROR)"/;

export interface LogLine extends Timed {
  /** The line as it was written; a longer one is cut, and then is no JSON. */
  readonly text: string;
}

export class RecentLines {
  readonly entries = new RecentEntries<LogLine>([sizes.severe, sizes.other]);

  /** @param line of the log, in which secrets are masked already */
  add(line: string, at: number): void {
    const text = line.length > lineMax ? copyStart(line, lineMax) : line;
    this.entries.add(isSevere.test(line) ? 0 : 1, { at, text });
  }

  /** Warnings and errors, the oldest first. */
  severe(): readonly string[] {
    return this.entries.all(0).map(({ text }) => text);
  }
}
