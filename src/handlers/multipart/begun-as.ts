/**
 * Headers of CreateMultipartUpload that say how an object is stored, and that parts do not repeat. A policy with conditions on them
 * has them for the parts and the completion as well, because all of these are the action PutObject (public API).
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

/** The request's headers with those of the upload's beginning, which replace its own. */
export function asBegun<C extends Pick<Authorized, 'own'>>(
  request: C,
  begun: Readonly<Record<string, string>> = {},
): C {
  const own = new Map(request.own);
  for (const name of names) own.delete(name);
  for (const [name, value] of Object.entries(begun)) own.set(name, value);
  return { ...request, own };
}
