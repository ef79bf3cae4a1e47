/**
 * The request as it arrived, without normalisation: `new Request()` rewrites dot segments, `%2e`, `\` and tabs, and joins repeated
 * headers, so a signature over the original would fail. Authentication, addressing and policies read only this.
 */
import { fail } from '../base/errors.ts';
import { dialects } from './dialect.ts';

export interface Wire {
  readonly method: string;
  /** The request target in origin form, exactly as it stood in the request line: raw path and query. */
  readonly target: string;
  readonly headers: WireHeaders;
  /** Whether the runtime has resolved `.` and `..` in the path, so that a signature over the original fails. */
  readonly isRewritten?: boolean | undefined;
  /** Address of the peer, '' where the runtime does not tell. */
  readonly remote: string;
  /** Whether the request came over TLS. */
  readonly secure: boolean;
  /** Such as `1.3`, where the request came over TLS and the runtime reports it. */
  readonly tlsVersion?: string | undefined;
  /** Such as `TLS_AES_128_GCM_SHA256`. */
  readonly tlsCipher?: string | undefined;
}

/** A request before anything is known about it. */
/** Lends the arrays in which a large body is joined to longer pieces. */
export interface PieceRing {
  /** The length of a piece. */
  readonly pieceBytes: number;
  /** @returns an array with any content, which is valid until the second call after this one; the last ones until the request has ended */
  next(length: number): Uint8Array;
}

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

const utf8 = new TextDecoder('utf-8', { fatal: true });

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
