/**
 * Headers that say how an object is to be stored, which an upload is begun with and its parts do not repeat. What a policy
 * asks of them, it asks of the parts and of the completion as well: all are the action PutObject (public API).
 */
import type { Authorized } from '../../gateway/request.ts';

const names = [
  'acl',
  'server-side-encryption',
  'server-side-encryption-aws-kms-key-id',
  'server-side-encryption-customer-algorithm',
  'storage-class',
] as const;

/** Undefined where the request names none. */
export function begunAs({ own }: Pick<Authorized, 'own'>): Readonly<Record<string, string>> | undefined {
  const given = names.flatMap((name) => {
    const value = own.get(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return given.length === 0 ? undefined : Object.fromEntries(given);
}

/** The request's headers as they would be, had it begun the upload: what it says of these itself changes nothing. */
export function asBegun<C extends Pick<Authorized, 'own'>>(
  request: C,
  begun: Readonly<Record<string, string>> = {},
): C {
  const own = new Map(request.own);
  for (const name of names) own.delete(name);
  for (const [name, value] of Object.entries(begun)) own.set(name, value);
  return { ...request, own };
}
