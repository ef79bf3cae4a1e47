/**
 * The lines of access logs, as the public service writes them:
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html
 */
import { maskParameters } from '../../../base/text/mask-secrets.ts';

/** Unknown and absent values are written as `-`. */
export interface AccessLogEntry extends LoggedAction, RequestFields {}

/** An action of the service itself has these alone. */
export interface LoggedAction {
  readonly bucketOwner: string;
  readonly bucket: string;
  /** ms since the epoch. */
  readonly time: number;
  readonly requester: string | undefined;
  readonly requestId: string;
  /** Such as `REST.GET.OBJECT`. */
  readonly operation: string;
  readonly key: string;
  readonly objectSize: number | undefined;
  readonly versionId: string | undefined;
}

interface RequestFields {
  readonly remote: string;
  readonly method: string;
  readonly target: string;
  readonly status: number;
  readonly error: string | undefined;
  readonly bytesSent: number;
  readonly totalMs: number;
  readonly turnAroundMs: number;
  readonly referer: string | undefined;
  readonly userAgent: string | undefined;
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

export function accessLogLine(entry: LoggedAction & Partial<AccessLogEntry>): string {
  const { method, target, totalMs } = entry;
  return [
    bare(entry.bucketOwner),
    bare(entry.bucket),
    moment(entry.time),
    bare(entry.remote),
    bare(entry.requester),
    entry.requestId,
    entry.operation,
    encodedKey(entry.key),
    quoted(target && `${method} ${maskParameters(target, '-')} HTTP/1.1`),
    entry.status ?? '-',
    bare(entry.error),
    figure(entry.bytesSent),
    figure(entry.objectSize),
    totalMs === undefined ? '-' : Math.round(totalMs),
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
