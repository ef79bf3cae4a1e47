/**
 * The client of the storage protocol: every request is signed in the page with temporary credentials, like any other client's. It is built
 * on XMLHttpRequest, which reports the progress of uploads and parses XML where Trusted Types forbid a parser of HTML.
 */
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { presigner } from '../../src/signing/presign.ts';
import { signer } from '../../src/signing/sign-request.ts';
import { encode } from '../../src/signing/signing-key.ts';
import { storageUrl } from '../app/base-path.ts';
import { Refused, reportRefusal, Unreachable } from '../app/client.ts';
import { storageCredentials } from './credentials.ts';
import { textIn } from './xml.ts';

export interface StorageAsk {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  readonly bucket?: string;
  readonly key?: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** By lower-case name. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: string | Blob | ArrayBuffer;
  readonly signal?: AbortSignal;
  readonly onProgress?: (sent: number) => void;
  /** Default: a text, parsed where it is XML. */
  readonly as?: 'text' | 'arraybuffer' | 'blob';
}

export interface StorageReply {
  readonly status: number;
  header(name: string): string | undefined;
  /** The names of all headers, in lower case. */
  names(): readonly string[];
  readonly text: string;
  /** The root of an XML reply. */
  readonly xml: Element | undefined;
  readonly bytes: ArrayBuffer | undefined;
  readonly blob: Blob | undefined;
}

const text = new TextEncoder();
const toBytes = (data: Uint8Array | string): Uint8Array =>
  typeof data === 'string' ? text.encode(data) : data;

const hasher = {
  sha256Hex: (data: Uint8Array | string) => bytesToHex(sha256(toBytes(data))),
  hmacSha256: (key: Uint8Array | string, data: Uint8Array | string) =>
    hmac(sha256, toBytes(key), toBytes(data)),
};

const pathOf = ({ bucket, key }: Pick<StorageAsk, 'bucket' | 'key'>): string => {
  const base = new URL(storageUrl()).pathname.replace(/\/$/, '');
  if (bucket === undefined) return `${base}/`;
  const object = key === undefined ? '' : `/${key.split('/').map(encode).join('/')}`;
  return `${base}/${encode(bucket)}${object}`;
};

const pairsOf = (values: Readonly<Record<string, string | undefined>>): (readonly [string, string])[] =>
  Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));

/** @throws Refused, Unreachable; AbortError where the signal ends it */
export async function storage(ask: StorageAsk): Promise<StorageReply> {
  const { accessKey, secretKey, sessionToken, region } = await storageCredentials();
  const { host, origin } = new URL(storageUrl());
  const { method, body, query = {}, headers = {} } = ask;
  const sign = signer({ hasher, clock: { now: Date.now }, accessKey, secretKey, region });
  const signed = sign({
    method,
    path: pathOf(ask),
    query: pairsOf(query),
    headers: { host, 'x-amz-security-token': sessionToken, ...Object.fromEntries(pairsOf(headers)) },
    payloadHash:
      typeof body === 'string' || body === undefined ? hasher.sha256Hex(body ?? '') : 'UNSIGNED-PAYLOAD',
  });
  const { host: _, ...sent } = signed.headers;
  return send(origin + signed.target, sent, ask);
}

function send(
  url: string,
  headers: Readonly<Record<string, string>>,
  ask: StorageAsk,
): Promise<StorageReply> {
  const { method, body, signal, onProgress, as = 'text' } = ask;
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    // '' gives both the text and the parsed document.
    request.responseType = as === 'text' ? '' : as;
    const abort = () => request.abort();
    signal?.addEventListener('abort', abort, { once: true });
    const end = () => signal?.removeEventListener('abort', abort);
    if (onProgress !== undefined) request.upload.onprogress = ({ loaded }) => onProgress(loaded);
    request.onload = () => {
      end();
      readReply(request, ask).then(resolve, reject);
    };
    request.onerror = () => {
      end();
      reject(new Unreachable('no answer'));
    };
    request.onabort = () => {
      end();
      reject(new DOMException('aborted', 'AbortError'));
    };
    if (signal?.aborted) reject(new DOMException('aborted', 'AbortError'));
    else request.send(body ?? null);
  });
}

/** A parser that finds no root reports the error in the document with a style that the policy of the page forbids. */
const xmlIn = (request: XMLHttpRequest): Element | undefined =>
  request.responseText.trimStart().startsWith('<')
    ? (request.responseXML?.documentElement ?? undefined)
    : undefined;

async function readReply(request: XMLHttpRequest, { as = 'text' }: StorageAsk): Promise<StorageReply> {
  const { status } = request;
  const header = (name: string) => request.getResponseHeader(name) ?? undefined;
  const names = () =>
    request
      .getAllResponseHeaders()
      .split('\r\n')
      .flatMap((line) => line.split(':', 1)[0]?.toLowerCase() || []);
  if (status >= 200 && status < 300)
    return {
      status,
      header,
      names,
      text: as === 'text' ? request.responseText : '',
      xml: as === 'text' ? xmlIn(request) : undefined,
      bytes: as === 'arraybuffer' ? request.response : undefined,
      blob: as === 'blob' ? request.response : undefined,
    };
  const xml = as === 'text' ? xmlIn(request) : undefined;
  const requestId = header('x-amz-request-id') ?? (xml && textIn(xml, 'RequestId')) ?? '';
  // A reply to HEAD and one that was asked for as bytes have no text that can be read here.
  const code = (xml && textIn(xml, 'Code')) ?? nameOf(status);
  // The credentials end with the log-in.
  if (status === 403 || code === 'ExpiredToken') reportRefusal();
  throw new Refused(status, { code, message: (xml && textIn(xml, 'Message')) ?? code, requestId });
}

/** 416 means InvalidRange here: the console requests ranges, and never a part by its number. */
const nameOf = (status: number): string =>
  ({ 403: 'AccessDenied', 404: 'NotFound', 412: 'PreconditionFailed', 416: 'InvalidRange' })[status] ??
  `HTTP ${status}`;

/** A link that works without this page, until its credentials or its own time end: downloads and previews. */
export async function presign(
  ask: Pick<StorageAsk, 'bucket' | 'key' | 'query'> & {
    readonly seconds: number;
    readonly method?: 'GET' | 'PUT';
  },
): Promise<string> {
  const { accessKey, secretKey, sessionToken, region } = await storageCredentials(ask.seconds * 1_000);
  const { host, origin } = new URL(storageUrl());
  const sign = presigner({ hasher, clock: { now: Date.now }, accessKey, secretKey, region });
  const target = sign({
    method: ask.method ?? 'GET',
    host,
    path: pathOf(ask),
    query: [...pairsOf(ask.query ?? {}), ['X-Amz-Security-Token', sessionToken]],
    seconds: ask.seconds,
  });
  return origin + target;
}
