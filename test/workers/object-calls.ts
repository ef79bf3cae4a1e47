/**
 * Calls of metadata objects that a test sends to the script of their class, as requests: the bridge of miniflare takes three calls for the
 * first one of an object, drops `__proto__`, loses the message of an error, and opens a connection for each call. Bundled for workerd.
 */
import { fromBase64, toBase64 } from '../../src/base/text/base64.ts';
import type { MetadataNamespace } from '../../src/runtime/cloudflare/bindings.ts';

export interface ObjectCall {
  /** The name of the object. */
  readonly object: string;
  readonly method: string;
  readonly args: readonly unknown[];
}

/** What JSON has no value for, and every array and object, is a pair of a letter and its content. */
function toPairs(value: unknown): unknown {
  if (value === undefined) return ['u'];
  if (typeof value === 'bigint') return ['i', String(value)];
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : ['n', String(value)];
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) return ['b', toBase64(value)];
  if (Array.isArray(value)) return ['a', value.map(toPairs)];
  return ['o', Object.entries(value).map(([name, each]) => [name, toPairs(each)])];
}

function fromPairs(encoded: unknown): unknown {
  if (!Array.isArray(encoded)) return encoded;
  const [letter, content] = encoded as [string, never];
  if (letter === 'u') return undefined;
  if (letter === 'i') return BigInt(content);
  if (letter === 'n') return Number(content);
  if (letter === 'b') return fromBase64(content);
  if (letter === 'a') return (content as readonly unknown[]).map(fromPairs);
  return Object.fromEntries((content as [string, unknown][]).map(([name, each]) => [name, fromPairs(each)]));
}

export const encodeCall = (value: unknown): string => JSON.stringify(toPairs(value));
export const decodeCall = (text: string): unknown => fromPairs(JSON.parse(text));

/** The answer, or the text of the error. */
export type Replied = { readonly answer: unknown } | { readonly refusal: string };

export async function answerObjectCall(request: Request, namespace: MetadataNamespace): Promise<Response> {
  const { object, method, args } = decodeCall(await request.text()) as ObjectCall;
  // The cast: the stub has the methods of its class.
  const stub = namespace.get(namespace.idFromName(object)) as Record<
    string,
    (...args: readonly unknown[]) => Promise<unknown>
  >;
  const replied = await (stub[method] as (typeof stub)[string])(...args).then(
    (answer): Replied => ({ answer }),
    (cause: unknown): Replied => ({ refusal: String(cause) }),
  );
  return new Response(encodeCall(replied));
}
