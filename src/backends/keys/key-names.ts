/** Names of keys, and the text that stands for the purpose of a wrapped key. */
import type { KeyContext } from '../../ports/key-provider.ts';

/** The id or alias at the end of a key's ARN, or the name itself. */
export function bareKeyId(name: string): string {
  const [arn, , service, , , ...rest] = name.split(':');
  const resource = rest.join(':');
  if (arn !== 'arn' || service !== 'kms') return name;
  if (resource.startsWith('key/') && resource.length > 4) return resource.slice(4);
  return resource.startsWith('alias/') && resource.length > 6 ? resource : name;
}

/** The same text for equal contexts, whatever the order of their members. */
export const canonicalText = (context: KeyContext): string =>
  JSON.stringify(Object.entries(context).toSorted(([a], [b]) => (a < b ? -1 : 1)));
