/** Where the policies of a decision are stored: how each is read, changed and linked to, by its name in the answer. */
import type { Json } from '../../../src/base/text/strict-json.ts';
import type { Question } from '../../app/allowed.ts';
import { call } from '../../app/client.ts';
import type { PageName } from '../../app/pages.ts';
import { storage } from '../../storage/client.ts';
import { toRead, toWrite } from '../../storage/families.ts';

/** The operations on the inline policies of users, groups and roles. */
export const inline = {
  user: { get: 'GetIamUserInlinePolicy', put: 'PutIamUserInlinePolicy', remove: 'DeleteIamUserInlinePolicy' },
  group: {
    get: 'GetIamGroupInlinePolicy',
    put: 'PutIamGroupInlinePolicy',
    remove: 'DeleteIamGroupInlinePolicy',
  },
  role: { get: 'GetIamRoleInlinePolicy', put: 'PutIamRoleInlinePolicy', remove: 'DeleteIamRoleInlinePolicy' },
} as const;

export type Place =
  /** `isOwn`: the caller reads and changes it in the storage protocol. */
  | { readonly kind: 'bucket'; readonly bucket: string; readonly isOwn?: boolean }
  | { readonly kind: 'managed'; readonly account: string; readonly policy: string }
  | {
      readonly kind: 'inline';
      readonly account: string;
      readonly holder: keyof typeof inline;
      readonly name: string;
      readonly policy: string;
    };

interface Scope {
  readonly bucket: string | undefined;
  /** Of the caller. */
  readonly account: string | undefined;
}

/** @returns undefined for what no operation reads: policies of sessions and of access points, and the built-in one of configured keys */
export function placeOf(policy: string, { bucket, account }: Scope): Place | undefined {
  if (policy === 'bucket policy') return bucket === undefined ? undefined : { kind: 'bucket', bucket };
  const [kind = '', name = '', last = ''] = policy.split('/');
  if (account === undefined || name === '') return undefined;
  if (kind === 'policy') return { kind: 'managed', account, policy: name };
  if (kind !== 'user' && kind !== 'group' && kind !== 'role') return undefined;
  return { kind: 'inline', account, holder: kind, name, policy: last };
}

const pathOf = (place: Place): string =>
  place.kind === 'bucket'
    ? `buckets/${place.bucket}/configurations/policy`
    : place.kind === 'managed'
      ? `accounts/${place.account}/policies/${place.policy}`
      : `accounts/${place.account}/${place.holder}s/${place.name}/inline-policies/${place.policy}`;

const operationsOf = (place: Place) =>
  place.kind === 'bucket'
    ? { get: 'GetBucketConfiguration', put: 'PutBucketConfiguration' }
    : place.kind === 'managed'
      ? { get: 'GetIamPolicy', put: 'PutIamPolicy' }
      : inline[place.holder];

/** Whether the caller of the page may read and change it. */
export function questionsOf(place: Place): { readonly get: Question; readonly put: Question } {
  if (place.kind === 'bucket' && place.isOwn === true)
    return { get: toRead('policy', place.bucket), put: toWrite('policy', place.bucket) };
  const { get, put } = operationsOf(place);
  const path = pathOf(place);
  return { get: { action: `admin:${get}`, path }, put: { action: `admin:${put}`, path } };
}

/** The compiler does not get to the end of the type of any JSON, nor of a path that is chosen later. */
const ask = call as unknown as (name: string, request: object) => Promise<unknown>;

const requestOf = (place: Place): object =>
  place.kind === 'bucket'
    ? { path: { name: place.bucket, family: 'policy' } }
    : place.kind === 'managed'
      ? { path: { account: place.account, policy: place.policy } }
      : { path: { account: place.account, [place.holder]: place.name, policy: place.policy } };

const policyOf = (bucket: string) => ({ bucket, query: { policy: '' } });

/** The document with its lines, as people edit it. */
export async function readPolicy(place: Place): Promise<string> {
  if (place.kind === 'bucket' && place.isOwn === true)
    return formatPolicy((await storage({ method: 'GET', ...policyOf(place.bucket) })).text);
  const found = await ask(operationsOf(place).get, requestOf(place));
  const document = place.kind === 'bucket' ? found : (found as { readonly document: string }).document;
  return typeof document === 'string' ? formatPolicy(document) : JSON.stringify(document, null, 2);
}

/** What is no JSON stays as it is. */
export function formatPolicy(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export async function savePolicy(place: Place, text: string): Promise<void> {
  if (place.kind === 'bucket' && place.isOwn === true) {
    const headers = { 'content-type': 'application/json' };
    await storage({ method: 'PUT', ...policyOf(place.bucket), headers, body: text });
    return;
  }
  const body = place.kind === 'bucket' ? (JSON.parse(text) as Json) : { document: text };
  await ask(operationsOf(place).put, { ...requestOf(place), body });
}

interface Target {
  readonly page: PageName;
  readonly params: Readonly<Record<string, string>>;
  readonly search: Readonly<Record<string, string>>;
}

/** The page that the policy belongs to. */
export const pageOfPolicy = (place: Place): Target =>
  place.kind === 'bucket'
    ? { page: 'bucketSettings', params: { bucket: place.bucket }, search: { family: 'policy' } }
    : place.kind === 'managed'
      ? {
          page: 'identity',
          params: { _splat: 'policies' },
          search: { account: place.account, open: place.policy },
        }
      : {
          page: 'identity',
          params: { _splat: `${place.holder}s` },
          search: { account: place.account, open: place.name },
        };
