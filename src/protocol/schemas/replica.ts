/** Reads the description of a replicated version strictly. `src/metadata/objects/properties.ts` has its type and writes it. */
import { fail } from '../../base/errors.ts';
import {
  type JsonReader,
  jsonBoolean,
  jsonChoice,
  jsonInteger,
  jsonList,
  jsonMap,
  jsonObject,
  jsonOptional,
  jsonText,
  readJson,
} from '../formats/json.ts';
import { aclPermissions, checksumNames, checksumTypes, retentionModes } from './common.ts';

/** Public API: 10,000 parts of 5 GiB. */
const sizeMax = 10_000 * 5 * 1024 ** 3;
/** The end of the year 9999, the last one that every time in a reply can be written with. */
const timeMax = Date.UTC(10_000, 0, 1) - 1;
const sitesMax = 16;
const grantsMax = 100;
const tagsMax = 50;
const fieldsMax = 1024;

const matching = (pattern: RegExp, must: string): JsonReader<string> => jsonText({ pattern, must });

const time = jsonInteger({ min: 0, max: timeMax });
/** Header values are bytes, a character each; control characters would end a header. */
const headerValue = jsonText({
  max: 8192,
  pattern: /^[\t\x20-\x7e\x80-\xff]*$/,
  must: 'the value of a header',
});

const account = matching(/^[\x20-\x7e]{1,256}$/, 'the id of an account');
const headers = jsonMap(headerValue, { max: fieldsMax });
const site = matching(/^[0-9A-Za-z-]{1,64}$/, 'the id of a site');

const grantee = jsonObject({
  is: jsonChoice(['user', 'group']),
  id: jsonOptional(account),
  group: jsonOptional(jsonChoice(['AllUsers', 'AuthenticatedUsers', 'LogDelivery'])),
});

const document = jsonObject({
  version: matching(/^[0-9a-f]{32}$/, 'a version id of 32 hexadecimal digits'),
  isNull: jsonBoolean,
  marker: jsonBoolean,
  modified: time,
  size: jsonInteger({ min: 0, max: sizeMax }),
  etag: matching(/^([0-9a-f]{32}(-[1-9]\d{0,4})?)?$/, 'an ETag in hexadecimal, without quotes'),
  storageClass: jsonText({ max: 64 }),
  headers: jsonObject({
    user: jsonOptional(headers),
    system: jsonOptional(headers),
    tags: jsonOptional(jsonList(jsonList(jsonText({ max: 256 }), { min: 2, max: 2 }), { max: tagsMax })),
  }),
  checksum: jsonOptional(
    jsonObject({
      algorithm: jsonChoice(checksumNames),
      type: jsonChoice(checksumTypes),
      value: matching(/^[A-Za-z0-9+/]{1,100}={0,2}(-\d{1,5})?$/, 'a checksum in base64'),
    }),
  ),
  owner: account,
  acl: jsonOptional(
    jsonList(
      jsonObject({
        grantee,
        permission: jsonChoice(aclPermissions),
      }),
      { max: grantsMax },
    ),
  ),
  lock: jsonOptional(
    jsonObject({
      mode: jsonOptional(jsonChoice(retentionModes)),
      retainUntil: jsonOptional(time),
      legalHold: jsonOptional(jsonBoolean),
    }),
  ),
  encryption: jsonOptional(
    jsonObject({
      by: jsonChoice(['gateway', 'provider']),
      keyId: jsonOptional(matching(/^[\x21-\x7e]{1,512}$/, 'the id of a key')),
    }),
  ),
  stamp: matching(
    /^[0-9a-f]{16}(-[0-9A-Za-z-]{1,64})?$/,
    '16 hexadecimal digits, then "-" and the id of a site',
  ),
  trace: jsonList(site, { min: 1, max: sitesMax }),
});

type Read = ReturnType<typeof document>;

/** @throws MalformedJSON naming the place */
export function readReplica(bytes: Uint8Array) {
  const { headers: input, checksum, acl, lock, encryption, ...rest } = readJson(document, bytes);
  const { version, isNull, marker, modified, size, etag, storageClass, owner, stamp, trace } = rest;
  if (marker && (size !== 0 || etag !== '' || storageClass !== ''))
    throw malformed('A delete marker has neither size, etag nor storageClass.');
  if (!marker && (etag === '' || storageClass === ''))
    throw malformed('A version that is no delete marker has an etag and a storageClass.');
  return {
    ...{ version, isNull, marker, modified, size, etag, storageClass, owner, stamp, trace },
    headers: toHeaders(input),
    ...(checksum === undefined ? {} : { checksum }),
    ...(acl === undefined ? {} : { acl: acl.map(toGrant) }),
    ...(lock === undefined ? {} : { lock: toLock(lock) }),
    ...(encryption === undefined ? {} : { encryption: toEncryption(encryption) }),
  };
}

const malformed = (message: string) => fail('MalformedJSON', message);

const toHeaders = ({ user, system, tags }: Read['headers']) => ({
  ...(user === undefined ? {} : { user: Object.fromEntries(user) }),
  ...(system === undefined ? {} : { system: Object.fromEntries(system) }),
  ...(tags === undefined ? {} : { tags: tags.map(([name = '', value = '']) => [name, value] as const) }),
});

function toGrant({ grantee: { is, id, group }, permission }: NonNullable<Read['acl']>[number]) {
  if (is === 'user' && id !== undefined && group === undefined)
    return { grantee: { is, id }, permission } as const;
  if (is === 'group' && group !== undefined && id === undefined)
    return { grantee: { is, group }, permission } as const;
  throw malformed('A grantee is a user with an id, or a group with the name of the group.');
}

function toLock({ mode, retainUntil, legalHold }: NonNullable<Read['lock']>) {
  if ((mode === undefined) !== (retainUntil === undefined))
    throw malformed('lock.mode and lock.retainUntil must both be given.');
  return {
    ...(mode === undefined || retainUntil === undefined ? {} : { mode, retainUntil }),
    ...(legalHold === undefined ? {} : { legalHold }),
  };
}

function toEncryption({ by, keyId }: NonNullable<Read['encryption']>) {
  if (by === 'provider') return { by, ...(keyId === undefined ? {} : { keyId }) } as const;
  if (keyId === undefined) return { by } as const;
  throw malformed('encryption.keyId needs encryption.by to be "provider".');
}
