/** Where the parts of a JSON text stand, so that a refusal that names `Rule[0].Status` leads to its line. */

/** Paths as the gateway writes them, and the offsets of their values. @param text valid JSON */
export function placesOf(text: string): ReadonlyMap<string, number> {
  const places = new Map<string, number>();
  let at = 0;
  const skipSpace = () => {
    while (/\s/.test(text[at] ?? '')) at += 1;
  };
  const readString = (): string => {
    const from = at;
    at += 1;
    while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
    at += 1;
    return JSON.parse(text.slice(from, at)) as string;
  };
  const readMembers = (end: string, readMember: (index: number) => void) => {
    at += 1;
    skipSpace();
    for (let index = 0; at < text.length && text[at] !== end; index += 1) {
      readMember(index);
      skipSpace();
      if (text[at] === ',') at += 1;
      skipSpace();
    }
    at += 1;
  };
  const readValue = (path: string): void => {
    skipSpace();
    places.set(path, at);
    if (text[at] === '{')
      readMembers('}', () => {
        const name = readString();
        skipSpace();
        at += 1;
        readValue(path === '' ? name : `${path}.${name}`);
      });
    else if (text[at] === '[') readMembers(']', (index) => readValue(`${path}[${index}]`));
    else if (text[at] === '"') readString();
    else while (/[^\s,\]}]/.test(text[at] ?? '')) at += 1;
  };
  readValue('');
  return places;
}

/** The offset of a part; of what contains it where the text does not have it. */
export function placeOf(places: ReadonlyMap<string, number>, path: string): number {
  const found = places.get(path);
  if (found !== undefined || path === '') return found ?? 0;
  return placeOf(places, path.replace(/(?:^|\.)[^.[]*$|\[[^[]*$/, ''));
}

export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;
