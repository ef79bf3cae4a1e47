/** Repeated members of JSON objects. `JSON.parse` keeps the last one without a word, and other readers keep the first. */

const stringToken = /"[^"\\]*(?:\\.[^"\\]*)*"/y;

/** The first member name that an object of the text holds twice. @param text valid JSON */
export function findRepeatedMember(text: string): string | undefined {
  /** The names of each open object; undefined for an open array. */
  const open: (Set<string> | undefined)[] = [];
  let isName = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      stringToken.lastIndex = at;
      const token = stringToken.exec(text)?.[0];
      if (token === undefined) return undefined;
      at += token.length - 1;
      const names = isName ? open.at(-1) : undefined;
      isName = false;
      if (names === undefined) continue;
      const name = String(JSON.parse(token));
      if (names.has(name)) return name;
      names.add(name);
    } else if (char === '{' || char === '[') {
      isName = char === '{';
      open.push(isName ? new Set() : undefined);
    } else if (char === '}' || char === ']') {
      isName = false;
      open.pop();
    } else if (char === ',') isName = open.at(-1) !== undefined;
  }
  return undefined;
}
