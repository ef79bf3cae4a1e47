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

// The same of XML, whose paths are those of the JSON: the list `TagSet[0]` is the first element inside of TagSet, or the first TagSet.

interface Element {
  readonly name: string;
  readonly offset: number;
  readonly children: Element[];
}

/** The elements of a text, as far as it can be read. */
function elementsOf(xml: string): readonly Element[] {
  const root: Element = { name: '', offset: 0, children: [] };
  const open: Element[] = [root];
  for (const { 1: close, 2: name = '', 3: selfClosing, index } of xml.matchAll(
    /<(\/?)([\w:.-]+)[^<>]*?(\/?)>/g,
  )) {
    if (close === '/') {
      if (open.length > 1) open.pop();
      continue;
    }
    const element: Element = { name: name.replace(/^.*:/, ''), offset: index, children: [] };
    open.at(-1)?.children.push(element);
    if (selfClosing === '') open.push(element);
  }
  return root.children[0]?.children ?? [];
}

interface Found {
  readonly depth: number;
  readonly offset: number;
}

function find(
  among: readonly Element[],
  [segment, ...rest]: readonly string[],
  depth: number,
  offset: number,
): Found {
  const end = { depth, offset };
  if (segment === undefined) return end;
  const [, name = '', , index] = /^([^[]*)(\[(\d+)\])?$/.exec(segment) ?? [];
  const named = among.filter((each) => each.name === name);
  const members = index === undefined ? named : [named[Number(index)], named[0]?.children[Number(index)]];
  return members
    .filter((each) => each !== undefined)
    .map((each) => find(each.children, rest, depth + 1, each.offset))
    .reduce(
      (best, each) => (each.depth > best.depth ? each : best),
      named[0] === undefined ? end : { depth, offset: named[0].offset },
    );
}

/** The offset of the element of a part in XML; of what contains it where the text does not have it. */
export const xmlPlaceOf = (xml: string, path: string): number =>
  path === '' ? 0 : find(elementsOf(xml), path.split('.'), 0, 0).offset;
