/** The browser's part and the signer's part of a form upload, written from the public documents alone: it shares no code with `src`. */
import { createHmac } from 'node:crypto';
import type { Credential } from '../../src/ports/credentials.ts';

export interface FormPart {
  readonly name: string;
  readonly value: string | Uint8Array;
  readonly fileName?: string;
  readonly type?: string;
}

export const boundary = '----WebKitFormBoundary7MA4YWxkTrZu0gW';
export const multipart = (mark = boundary): Record<string, string> => ({
  'content-type': `multipart/form-data; boundary=${mark}`,
});

export function encodeForm(parts: readonly FormPart[], mark = boundary): Uint8Array {
  const pieces = parts.flatMap(({ name, value, fileName, type }) => [
    `--${mark}\r\nContent-Disposition: form-data; name="${name}"`,
    fileName === undefined ? '' : `; filename="${fileName}"`,
    type === undefined ? '' : `\r\nContent-Type: ${type}`,
    '\r\n\r\n',
    value,
    '\r\n',
  ]);
  return Buffer.concat(
    [...pieces, `--${mark}--\r\n`].map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece)),
  );
}

export const fieldsOf = (fields: Readonly<Record<string, string>>): FormPart[] =>
  Object.entries(fields).map(([name, value]) => ({ name, value }));
export const fileOf = (value: string | Uint8Array, fileName = 'photo.jpg'): FormPart => ({
  name: 'file',
  value,
  fileName,
  type: 'image/jpeg',
});

export interface PolicySpec {
  readonly conditions: readonly unknown[];
  readonly expiration?: string;
  readonly now?: number;
}

export const policyText = ({ conditions, expiration, now = Date.now() }: PolicySpec): string =>
  JSON.stringify({ expiration: expiration ?? new Date(now + 600_000).toISOString(), conditions });

const hmac = (key: Uint8Array | string, text: string): Buffer =>
  createHmac('sha256', key).update(text).digest();

type Signer = Pick<Credential, 'accessKey' | 'secretKey'>;

interface SignSpec extends PolicySpec {
  readonly dialect?: 'amz' | 'store';
  /** The whole policy, instead of one built from the conditions. */
  readonly policy?: string;
}

/** The fields that sign a form in version 4; the conditions must cover the first three of them. */
export function signForm(credential: Signer, spec: SignSpec): Record<string, string> {
  const { dialect = 'amz', now = Date.now() } = spec;
  const [prefix, secret, terminator] =
    dialect === 'amz' ? ['x-amz-', 'AWS4', 'aws4_request'] : ['x-store-', 'STORE4', 'store4_request'];
  const timestamp = new Date(now).toISOString().replace(/[:-]|\.\d{3}/g, '');
  const scope = [timestamp.slice(0, 8), 'us-east-1', 's3', terminator];
  const signing = {
    [`${prefix}algorithm`]: `${secret}-HMAC-SHA256`,
    [`${prefix}credential`]: [credential.accessKey, ...scope].join('/'),
    [`${prefix}date`]: timestamp,
  };
  const conditions = [
    ...spec.conditions,
    ...Object.entries(signing).map(([name, value]) => ({ [name]: value })),
  ];
  const policy = Buffer.from(spec.policy ?? policyText({ ...spec, conditions })).toString('base64');
  const key = scope.reduce(
    (above: Uint8Array | string, part) => hmac(above, part),
    secret + credential.secretKey,
  );
  return { ...signing, policy, [`${prefix}signature`]: hmac(key, policy).toString('hex') };
}

/** The same for version 2, which conditions need not cover. */
export const signFormV2 = (credential: Signer, spec: PolicySpec): Record<string, string> =>
  signPolicyV2(credential, Buffer.from(policyText(spec)).toString('base64'));

/** Version 2 over any text. */
export function signPolicyV2({ accessKey, secretKey }: Signer, policy: string): Record<string, string> {
  const signature = createHmac('sha1', secretKey).update(policy).digest('base64');
  return { AWSAccessKeyId: accessKey, policy, signature };
}
