/** Configurations of a bucket as the XML of the storage protocol, by the gateway's own schemas: loaded where an editor shows it. */
import { Refusal } from '../../src/base/errors.ts';
import { describeFault } from '../../src/protocol/formats/json-shape.ts';
import { type ConfigurationFamily, configurationDocuments } from '../../src/protocol/schemas/families.ts';
import { minimumSizeField } from '../../src/protocol/schemas/lifecycle.ts';
import { decodeXml, encodeConfiguration, readDocument } from './codec.ts';

export type Converted = { readonly text: string } | { readonly fault: string };

/** The field of the JSON that XML clients send in a header. */
export const headerOf = (family: ConfigurationFamily): string | undefined =>
  family === 'lifecycle' ? minimumSizeField : undefined;

/** @param text JSON @returns a fault for a text that has not the form of the family */
export function toXml(family: ConfigurationFamily, text: string): Converted {
  try {
    const { value, faults } = readDocument(family, text);
    const [first] = faults;
    return first === undefined
      ? { text: indentXml(encodeConfiguration(family, value).text) }
      : { fault: describeFault(first) };
  } catch (cause) {
    return { fault: describeCause(cause) };
  }
}

/** @param before the JSON whose field for a header stays @returns JSON */
export function fromXml(family: ConfigurationFamily, xml: string, before: string): Converted {
  if (family === 'policy') return { fault: 'A policy has no XML.' };
  try {
    const value = withoutEmptyLists(decodeXml(configurationDocuments[family], xml));
    const header = headerOf(family);
    const stays = header === undefined ? undefined : fieldIn(before, header);
    const all = stays === undefined ? value : { ...(value as object), [header as string]: stays };
    return { text: JSON.stringify(all, null, 2) };
  } catch (cause) {
    return { fault: describeCause(cause) };
  }
}

const describeCause = (cause: unknown): string => {
  if (cause instanceof Refusal && cause.details.message !== undefined) return cause.details.message;
  return cause instanceof Error ? cause.message : String(cause);
};

function fieldIn(text: string, name: string): unknown {
  try {
    return (JSON.parse(text) as Readonly<Record<string, unknown>>)[name];
  } catch {
    return undefined;
  }
}

/** XML without an element is a list without members; in JSON the list may be absent. */
function withoutEmptyLists(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEmptyLists);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== undefined && !(Array.isArray(each) && each.length === 0))
      .map(([name, each]) => [name, withoutEmptyLists(each)]),
  );
}

/** Breaks what `writeXml` has written into lines; the texts of elements stay as they are. */
function indentXml(text: string): string {
  let out = '';
  let depth = 0;
  let isOpen = false;
  for (const piece of text.match(/<[^>]*>[^<]*/g) ?? []) {
    const isHead = piece.startsWith('<?');
    const isClose = piece.startsWith('</');
    if (isClose) depth -= 1;
    if (out !== '' && !(isClose && isOpen)) out += `\n${'  '.repeat(depth)}`;
    out += isHead ? piece.trim() : piece;
    isOpen = !isHead && !isClose;
    if (isOpen) depth += 1;
  }
  return out;
}
