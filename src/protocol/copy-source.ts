/** The `copy-source` header as a client writes it (public API "CopyObject"). Its handler checks what it names. */

import { fail, invalidArgument } from '../base/errors.ts';
import { percentDecode } from './wire.ts';

export interface NamedSource {
  /** Or the alias of an access point. */
  readonly bucket: string;
  /** Present where the source is the ARN of an access point. */
  readonly through?: { readonly account: string; readonly name: string };
  readonly key: string;
  readonly versionId?: string;
}

/** The account, access point and key in an ARN; undefined for another text. */
function accessPointSource(path: string): { account: string; name: string; key: string } | undefined {
  const [arn, partition = '', service, region = '', account = '', ...rest] = path.split(':');
  if (arn !== 'arn' || !/^aws[\w-]*$/.test(partition) || service !== 's3') return undefined;
  if (account === '' || `${region}${account}`.includes('/')) return undefined;
  const [, name = '', object, ...key] = rest
    .join(':')
    .replace(/^accesspoint:/, 'accesspoint/')
    .split('/');
  if (!/^accesspoint[/:]/.test(rest.join(':')) || name === '' || object !== 'object') return undefined;
  return key.join('/') === '' ? undefined : { account, name, key: key.join('/') };
}

/** @throws InvalidArgument: the address of the request itself is fine */
function decodeSource(encoded: string, raw: string): string {
  try {
    return percentDecode(encoded);
  } catch (cause) {
    throw fail('InvalidArgument', {
      message: 'Invalid copy source encoding.',
      elements: { ArgumentName: 'copy-source', ArgumentValue: raw },
      cause,
    });
  }
}

const versionMark = '?versionId=';

/** The path, decoded, without the leading slash that may be there. */
function readPath(raw: string): string {
  const at = raw.indexOf(versionMark);
  // The public service decodes this header like a form: a plus is a space.
  const encoded = (at < 0 ? raw : raw.slice(0, at)).replaceAll('+', ' ');
  return decodeSource(encoded, raw).replace(/^\//, '');
}

/**
 * `/bucket/key?versionId=id`, percent-encoded; the leading slash may be missing. Or
 * `arn:aws:s3:region:account:accesspoint/name/object/key`.
 * @throws InvalidArgument
 */
export function parseCopySource(raw: string): NamedSource {
  const path = readPath(raw);
  const at = raw.indexOf(versionMark);
  const version = at < 0 ? {} : { versionId: decodeSource(raw.slice(at + versionMark.length), raw) };
  const through = accessPointSource(path);
  if (through !== undefined) {
    const { account, name, key } = through;
    return { bucket: '', through: { account, name }, key, ...version };
  }
  const slash = path.indexOf('/');
  if (slash <= 0 || slash === path.length - 1) {
    throw invalidArgument(
      'copy-source',
      raw,
      'Copy Source must mention the source bucket and key: sourcebucket/sourcekey',
    );
  }
  return { bucket: path.slice(0, slash), key: path.slice(slash + 1), ...version };
}

/**
 * What policies compare: `bucket/key` and `/bucket/key`, because a policy may write either, whatever the client wrote. The version is
 * another fact. An invalid header stays as it is: its request is refused.
 */
export function describeCopySource(raw: string): readonly string[] {
  try {
    const path = readPath(raw);
    return [path, `/${path}`];
  } catch {
    return [raw];
  }
}
