/**
 * The lines of access logs, as the public service writes them:
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html
 */
import { maskParameters } from '../../base/text/mask-secrets.ts';
import { describeOperation, type OperationName } from '../operations/operations.ts';
import type { Scope } from '../operations/request-line.ts';

/** Unknown and absent values are written as `-`. */
export interface AccessLogEntry {
  readonly bucketOwner: string;
  readonly bucket: string;
  /** ms since the epoch. */
  readonly time: number;
  readonly remote: string;
  readonly requester: string | undefined;
  readonly requestId: string;
  /** Such as `REST.GET.OBJECT`. */
  readonly operation: string;
  readonly key: string;
  readonly method: string;
  readonly target: string;
  readonly status: number;
  readonly error: string | undefined;
  readonly bytesSent: number;
  readonly objectSize: number | undefined;
  readonly totalMs: number;
  readonly turnAroundMs: number;
  readonly referer: string | undefined;
  readonly userAgent: string | undefined;
  readonly versionId: string | undefined;
  readonly signatureVersion: string | undefined;
  readonly cipher: string | undefined;
  readonly authType: string | undefined;
  readonly host: string | undefined;
  readonly tlsVersion: string | undefined;
}

/** Texts of clients are cut to this many characters. */
const textMax = 2048;

/** Escapes a client's text, so that it cannot end its field or its line. */
const contained = (raw: string): string =>
  raw.slice(0, textMax).replace(/["\\\p{Cc}]/gu, (char) => encodeURIComponent(char));
const quoted = (raw: string | undefined): string => `"${raw ? contained(raw) : '-'}"`;
const bare = (raw: string | undefined): string => (raw ? contained(raw).replaceAll(' ', '%20') : '-');
const figure = (value: number | undefined): string => (value ? String(Math.round(value)) : '-');

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `[06/Feb/2026:00:00:38 +0000]` */
function moment(time: number): string {
  const [, year, month = '', day, clock] =
    /^(\d+)-(\d\d)-(\d\d)T([\d:]+)/.exec(new Date(time).toISOString()) ?? [];
  return `[${day}/${months[Number(month) - 1]}/${year}:${clock} +0000]`;
}

const encodedKey = (key: string): string =>
  key === '' ? '-' : encodeURIComponent(key).replaceAll('%2F', '/');

export function accessLogLine(entry: AccessLogEntry): string {
  const target = maskParameters(entry.target, '-');
  return [
    bare(entry.bucketOwner),
    bare(entry.bucket),
    moment(entry.time),
    bare(entry.remote),
    bare(entry.requester),
    entry.requestId,
    entry.operation,
    encodedKey(entry.key),
    quoted(`${entry.method} ${target} HTTP/1.1`),
    entry.status,
    bare(entry.error),
    figure(entry.bytesSent),
    figure(entry.objectSize),
    Math.round(entry.totalMs),
    figure(entry.turnAroundMs),
    quoted(entry.referer && maskParameters(entry.referer, '-')),
    quoted(entry.userAgent),
    bare(entry.versionId),
    entry.requestId,
    bare(entry.signatureVersion),
    bare(entry.cipher),
    bare(entry.authType),
    bare(entry.host),
    bare(entry.tlsVersion),
    // Access point ARN and whether an ACL was required: not recorded.
    '-',
    '-',
  ].join(' ');
}

/** Sub-resources that the log calls by another name than the URL does. */
const resources: Readonly<Record<string, string>> = {
  'list-type=2': 'BUCKET',
  delete: 'MULTI_OBJECT_DELETE',
  'legal-hold': 'OBJECT_LOCK_LEGALHOLD',
  logging: 'LOGGING_STATUS',
  'object-lock': 'OBJECT_LOCK_CONFIGURATION',
  partNumber: 'PART',
  policy: 'BUCKETPOLICY',
  retention: 'OBJECT_LOCK_RETENTION',
  uploadId: 'UPLOAD',
  versions: 'BUCKETVERSIONS',
};

/** An operation as the log names it: `REST.<method>.<resource>`. */
export function loggedOperation(name: OperationName): string {
  const [method = '', scope = '', ...marks] = describeOperation(name).on.split(' ');
  if (method === 'OPTIONS') return 'REST.OPTIONS.PREFLIGHT';
  const named = marks.filter((mark) => mark.startsWith('?')).map((mark) => mark.slice(1));
  const mark = named.find((each) => each === 'partNumber') ?? named[0];
  const resource = mark === undefined ? scope.toUpperCase() : nameResource(mark, scope as Scope);
  return `REST.${marks.includes('+copy-source') ? 'COPY' : method}.${resource}`;
}

function nameResource(mark: string, scope: Scope): string {
  if (mark === 'tagging' && scope === 'object') return 'OBJECT_TAGGING';
  return (
    resources[mark] ??
    mark
      .replace(/[a-z](?=[A-Z])/g, '$&_')
      .replaceAll('-', '_')
      .toUpperCase()
  );
}
