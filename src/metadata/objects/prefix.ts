/** Prefix ranges over text columns, in the order of UTF-8 bytes. */

/**
 * The smallest text that sorts after every text with this prefix, or undefined when there is none (an empty prefix, or only
 * U+10FFFF). Code points sort like their UTF-8 bytes.
 */
export function prefixEnd(prefix: string): string | undefined {
  const points = Array.from(prefix);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    const next = (last.codePointAt(0) ?? 0) + 1;
    if (next > 0x10ffff) continue;
    // Surrogates have no UTF-8 form: the code point after U+D7FF is U+E000.
    return points.join('') + String.fromCodePoint(next === 0xd800 ? 0xe000 : next);
  }
  return undefined;
}

/** The range of rows whose text `column` starts with `prefix`; `fixed` are the sort columns ahead of it. */
export function prefixRange<C extends string, F extends object = object>(
  column: C,
  prefix: string,
  fixed?: F,
): { from?: Record<C, string> & F; before?: Record<C, string> & F } {
  const at = (value: string) => ({ ...fixed, [column]: value }) as Record<C, string> & F;
  const end = prefixEnd(prefix);
  return {
    ...(prefix === '' ? {} : { from: at(prefix) }),
    ...(end === undefined ? {} : { before: at(end) }),
  };
}
