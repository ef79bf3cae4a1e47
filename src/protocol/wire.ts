/**
 * The request as it arrived, without normalisation: `new Request()` rewrites dot segments, `%2e`, `\` and tabs, and joins repeated
 * headers, so a signature over the original would fail. Authentication, addressing and policies read only this. Below: header values as
 * texts.
 */
import { fail } from '../base/errors.ts';
import { byteString, textOfOctets } from '../base/text/utf8.ts';
import { dialects } from './dialect.ts';

export interface Wire {
  readonly method: string;
  /** The request target in origin form, exactly as it stood in the request line: raw path and query. */
  readonly target: string;
  readonly headers: WireHeaders;
  /** Whether the runtime has resolved `.` and `..` in the path, so that a signature over the original fails. */
  readonly isRewritten?: boolean | undefined;
  /** Whether the runtime has joined the values of a header that was sent more than once, by ', '. */
  readonly hasJoinedHeaders?: boolean | undefined;
  /** Address of the peer, '' where the runtime does not tell. */
  readonly remote: string;
  /** Whether the request came over TLS. */
  readonly secure: boolean;
  /** Such as `1.3`, where the request came over TLS and the runtime reports it. */
  readonly tlsVersion?: string | undefined;
  /** Such as `TLS_AES_128_GCM_SHA256`. */
  readonly tlsCipher?: string | undefined;
}

/** Lends the arrays in which a large body is joined to longer pieces. */
export interface PieceRing {
  /** The length of a piece. */
  readonly pieceBytes: number;
  /** @returns an array with any content, which is valid until the second call after this one; the last ones until the request has ended */
  next(length: number): Uint8Array;
}

/** A request before anything is known about it. */
export interface Incoming {
  readonly wire: Wire;
  /** The raw body; undefined when there is none. Single use. */
  readonly body: AsyncIterable<Uint8Array> | undefined;
  /** Absent: bodies are read in the arrays in which they arrive. */
  readonly pieces?: PieceRing | undefined;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  /** Which listener accepted it, where `SVC_ADMIN_LISTEN` opened a second one; absent: one serves both areas. */
  readonly listener?: 'admin' | 'storage';
}

/**
 * The same request with another body. Use this instead of `{ ...incoming, body }`: the requests of a listener have getters, which a
 * spread leaves out.
 */
export const withBody = ({ wire, pieces, signal, listener }: Incoming, body: Incoming['body']): Incoming => ({
  wire,
  body,
  pieces,
  signal,
  ...(listener === undefined ? {} : { listener }),
});

/** Request headers in arrival order; names are matched in lower case. */
export class WireHeaders {
  readonly #values = new Map<string, string | string[]>();

  /** @param flat `[name, value, name, value, …]` as in Node's `rawHeaders` */
  constructor(flat: readonly string[]) {
    for (let i = 0; i + 1 < flat.length; i += 2) {
      const name = (flat[i] as string).toLowerCase();
      const value = flat[i + 1] as string;
      const known = this.#values.get(name);
      if (known === undefined) this.#values.set(name, value);
      else if (typeof known === 'string') this.#values.set(name, [known, value]);
      else known.push(value);
    }
  }

  /** The value, repeated ones joined with a comma. */
  get(name: string): string | undefined {
    const value = this.#values.get(name);
    return typeof value === 'object' ? value.join(',') : value;
  }
  all(name: string): readonly string[] {
    const value = this.#values.get(name);
    return value === undefined ? [] : typeof value === 'string' ? [value] : value;
  }
  /** The values, each as `change` makes it, joined with a comma; '' when there are none. */
  joined(name: string, change: (value: string) => string): string {
    const value = this.#values.get(name);
    if (value === undefined) return '';
    return typeof value === 'string' ? change(value) : value.map(change).join(',');
  }
  has(name: string): boolean {
    return this.#values.has(name);
  }
  /** These headers and more. */
  with(more: readonly (readonly [name: string, value: string])[]): WireHeaders {
    const known = [...this.names()].flatMap((name) => this.all(name).flatMap((value) => [name, value]));
    return new WireHeaders([...known, ...more.flat()]);
  }
  /** Lower-case names, each once, in order of first arrival. */
  names(): IterableIterator<string> {
    return this.#values.keys();
  }
}

/** Percent-decoding as UTF-8; anything that does not decode is refused, never guessed at. */
export function percentDecode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw fail('InvalidURI', `"${text.slice(0, 200)}" is not valid percent-encoded UTF-8`);
  }
}

/** Query parameters in order of arrival, decoded; a `+` is a space, as in a form. */
export class Query {
  /** Decoded `[name, value]` pairs; a name without `=` has the value ''. */
  readonly pairs: readonly (readonly [string, string])[];
  #read: Set<string> | undefined;

  constructor(raw: string) {
    this.pairs =
      raw === ''
        ? []
        : raw
            .split('&')
            .filter((part) => part !== '')
            .map((part) => {
              const at = part.indexOf('=');
              const [name, value] = at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)];
              return [decodePlus(name), decodeValue(value)] as const;
            });
  }
  get(name: string): string | undefined {
    for (const [known, value] of this.pairs) {
      if (known !== name) continue;
      this.#read = (this.#read ?? new Set()).add(name);
      return value;
    }
    return undefined;
  }
  has(name: string): boolean {
    return this.get(name) !== undefined;
  }
  /** The names that no `get` or `has` has asked for, so that they had no effect on the request. */
  unread(): string[] {
    return this.pairs.map(([name]) => name).filter((name) => !this.#read?.has(name));
  }
  /**
   * A name with two values. Version-4 signatures sort their query, so that they would cover either order. The names of
   * headers that were moved into the query count in any case.
   */
  ambiguousName(): string | undefined {
    if (this.pairs.length < 2) return undefined;
    const values = new Map<string, string>();
    for (const [name, value] of this.pairs) {
      const lower = name.toLowerCase();
      const known = lower.startsWith('x-') ? lower : name;
      const before = values.get(known);
      if (before !== undefined && before !== value) return name;
      values.set(known, value);
    }
    return undefined;
  }
}

const decodePlus = (text: string): string =>
  percentDecode(text.includes('+') ? text.replaceAll('+', ' ') : text);

/** The value stays out of the refusal: it may be a key or a token. */
function decodeValue(value: string): string {
  try {
    return decodePlus(value);
  } catch {
    throw fail('InvalidURI', 'A value of the query is not valid percent-encoded UTF-8');
  }
}

/** Splits a request target into its raw path and raw query; absolute-form targets lose their origin. */
export function splitTarget(target: string): { readonly path: string; readonly query: string } {
  const origin = target.startsWith('/') ? null : /^https?:\/\/[^/?#]*/i.exec(target);
  const local = origin ? target.slice(origin[0].length) : target;
  const at = local.indexOf('?');
  const path = at < 0 ? local : local.slice(0, at);
  return { path: path.startsWith('/') ? path : `/${path}`, query: at < 0 ? '' : local.slice(at + 1) };
}

// Action queries: requests at service scope that name their operation in the `Action` parameter, in the URL or in a form. The public IAM
// and STS APIs use them.

/** Enough for the largest policy document with every character escaped, and the other parameters. */
export const formBytesMax = 128 * 1024;
const parametersMax = 1_000;

export type Parameters = ReadonlyMap<string, string>;
export const noParameters: Parameters = new Map();

const form = /^application\/x-www-form-urlencoded[ \t]*(?:;|$)/i;

export const isForm = ({ method, headers }: Pick<Wire, 'method' | 'headers'>): boolean =>
  method === 'POST' && form.test(headers.get('content-type')?.trim() ?? '');

/** @param path local, of a request whose host names no bucket */
export const isActionQuery = (wire: Wire, path: string, query: Query): boolean =>
  path === '/' && (isForm(wire) || query.has('Action'));

/** Parameters of the signature, which signers add to those of the action. */
export const isSigningParameter = (name: string): boolean =>
  dialects.some(({ headerPrefix }) => name.toLowerCase().startsWith(headerPrefix));

const utf8 = /* @__PURE__ */ new TextDecoder('utf-8', { fatal: true });

/**
 * The parameters of an action: URL and form together, each name once, or two readers could disagree on which counts.
 * @throws InvalidParameterCombination, MalformedQueryString
 */
export function readParameters(query: Query, body: Uint8Array): Parameters {
  const input = new Map<string, string>();
  const own = query.pairs.filter(([name]) => !isSigningParameter(name));
  for (const [name, value] of [...own, ...readForm(body).pairs]) {
    if (input.has(name))
      throw fail(
        'InvalidParameterCombination',
        `The parameter ${name.slice(0, 128)} was given more than once.`,
      );
    input.set(name, value);
    if (input.size > parametersMax)
      throw fail('MalformedQueryString', `A request has at most ${parametersMax} parameters.`);
  }
  return input;
}

function readForm(body: Uint8Array): Query {
  try {
    return new Query(utf8.decode(body));
  } catch (cause) {
    throw fail('MalformedQueryString', { cause });
  }
}

// Header values are bytes, one character each; text from a query, a form or an older client is Unicode. This is the way from one to the
// other. Replies have printable ASCII only, because many clients cannot read a reply with any other byte in a header.

const encoder = new TextEncoder();
/** Characters of a header name (RFC 9110 "token"). */
const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const control = /[\0-\x08\x0a-\x1f\x7f]/;
const printable = /^[\t\x20-\x7e]*$/;

/**
 * Checks a value from the query that will be sent in a header.
 * @throws InvalidArgument when no header can contain it: a line break would begin another header
 */
export function headerText(name: string, value: string): string {
  if (!token.test(name) || control.test(value)) {
    throw fail('InvalidArgument', {
      message: `${name} holds a character that no header can carry`,
      elements: { ArgumentName: name },
    });
  }
  return byteString(value);
}

/** Longest encoded word, and what stands around its text (RFC 2047 §2). */
const wordMax = 75 - '=?UTF-8?Q??='.length;

/**
 * A value of user metadata as the public service returns it: as it was sent where that is printable ASCII, else in encoded words
 * (RFC 2047), of the kind that is shorter for most texts: Q where ASCII prevails, else B.
 */
export function encodeWords(value: string): string {
  if (printable.test(value)) return value;
  const text = textOfOctets(value);
  const ascii = text.replace(/[^\t\x20-\x7e]/gu, '').length;
  const kind = [...text].length - ascii > ascii ? 'B' : 'Q';
  const words: string[] = [];
  let word = '';
  let length = 0;
  for (const char of text) {
    const bytes = encoder.encode(char);
    const size = kind === 'B' ? bytes.length : quotedPrintable(char, bytes).length;
    // Four characters of base64 are three bytes.
    if (length + size > (kind === 'B' ? Math.floor(wordMax / 4) * 3 : wordMax)) {
      words.push(encodedWord(kind, word));
      [word, length] = ['', 0];
    }
    word += char;
    length += size;
  }
  words.push(encodedWord(kind, word));
  return words.join(' ');
}

function encodedWord(kind: 'B' | 'Q', text: string): string {
  const bytes = encoder.encode(text);
  const body =
    kind === 'B'
      ? btoa(String.fromCharCode(...bytes))
      : Array.from(text, (char) => quotedPrintable(char, encoder.encode(char))).join('');
  return `=?UTF-8?${kind}?${body}?=`;
}

function quotedPrintable(char: string, bytes: Uint8Array): string {
  if (/^[A-Za-z0-9!*+/-]$/.test(char)) return char;
  return char === ' ' ? '_' : Array.from(bytes, (byte) => `=${hex(byte)}`).join('');
}

const hex = (byte: number): string => byte.toString(16).toUpperCase().padStart(2, '0');
const percentEncode = (text: string, but: RegExp): string =>
  Array.from(text, (char) =>
    but.test(char) ? char : Array.from(encoder.encode(char), (byte) => `%${hex(byte)}`).join(''),
  ).join('');

/** `; name="value"` or `; name=value` of Content-Disposition and Content-Type. */
const parameter = /(;[ \t]*)([!#$&+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/g;

/**
 * A header of an object other than user metadata, in printable ASCII. A parameter with other characters, such as `filename`, gets an
 * extended twin (RFC 8187: `filename*=UTF-8''…`), which browsers prefer; all else is percent-encoded, as in an address.
 */
export function asciiHeader(value: string): string {
  if (printable.test(value)) return value;
  const text = textOfOctets(value);
  const twins = new Set(
    Array.from(text.matchAll(/;[ \t]*([^=;\s]+)\*=/g), ([, name]) => name?.toLowerCase()),
  );
  const extended = text.replace(
    parameter,
    (whole, gap: string, name: string, quoted?: string, bare?: string) => {
      if (printable.test(whole)) return whole;
      const input = quoted?.replace(/\\(.)/gs, '$1') ?? bare ?? '';
      const plain = `${gap}${name}="${input.replace(/[^\x20-\x7e]/gu, '_').replace(/["\\]/g, '\\$&')}"`;
      return twins.has(name.toLowerCase())
        ? plain
        : `${plain}; ${name}*=UTF-8''${percentEncode(input, /[A-Za-z0-9!#$&+.^_`|~-]/)}`;
    },
  );
  return percentEncode(extended, /[\t\x20-\x7e]/);
}

/**
 * Headers that are stored with an object as a client sent them, and returned under the same names (public API
 * "System-defined object metadata").
 */
export const systemHeaders = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-type',
  'expires',
] as const;
