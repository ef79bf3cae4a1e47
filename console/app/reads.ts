/**
 * Reads that begin together are one request (BatchRead): a page that shows eight things, or polls them, asks once. The parts of the reply
 * arrive as each has been read, so that none waits for a slower one.
 */
import {
  type AdminOperationName,
  type Answer,
  type Ask,
  call,
  hasCsrfToken,
  Refused,
  readRefusal,
  reportRefusal,
  send,
  Unreachable,
} from './client.ts';
import { batchExceptions, operations } from './operations.ts';

interface Cached {
  readonly etag: string;
  readonly json: unknown;
}

/** The last replies by their read. A poll sends the ETag, so that the gateway sends the reply only where it differs. */
const cache = new Map<string, Cached>();
const cachedMax = 24;
/** Called where another caller logs in, because it must not see what the one before has read. */
export const forgetReads = (): void => cache.clear();
const readsMax = 32;
/** The browser runs timers that are due at the same time some ms apart. */
const pollsWithinMs = 50;

interface Waiting {
  readonly name: AdminOperationName;
  readonly ask: Ask<AdminOperationName>;
  readonly key: string;
  readonly resolve: (json: unknown) => void;
  readonly reject: (cause: unknown) => void;
}

let waiting: Waiting[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;
let isHurried = false;

const isBatchable = (name: AdminOperationName): boolean =>
  operations[name]?.startsWith('GET ') !== batchExceptions.includes(name);

/**
 * Performs an operation that only reads, in one request with others that begin at the same time.
 * @param isPoll it may wait some ms for others that are due at the same time
 * @throws Refused, Unreachable
 */
export function read<N extends AdminOperationName>(
  name: N,
  ask: Ask<N>,
  { isPoll = false }: { readonly isPoll?: boolean } = {},
): Promise<Answer<N>> {
  if (!hasCsrfToken() || !isBatchable(name)) return call(name, ask);
  return new Promise<Answer<N>>((resolve, reject) => {
    const key = JSON.stringify([name, ask.path, ask.query, ask.body]);
    // The casts: the answer is that of this operation.
    waiting.push({ name, ask: ask as never, key, resolve: resolve as (json: unknown) => void, reject });
    if (timer !== undefined && (isHurried || isPoll)) return;
    clearTimeout(timer);
    isHurried = !isPoll;
    timer = setTimeout(sendWaiting, isPoll ? pollsWithinMs : 0);
  });
}

function sendWaiting(): void {
  const now = waiting.filter(({ ask, reject }) => {
    if (ask.signal?.aborted === true) reject(ask.signal.reason);
    return ask.signal?.aborted !== true;
  });
  waiting = [];
  timer = undefined;
  for (let from = 0; from < now.length; from += readsMax)
    sendBatch(now.slice(from, from + readsMax)).catch(() => {});
}

const sendAlone = ({ name, ask, resolve, reject }: Waiting): void => {
  call(name, ask).then(resolve, reject);
};

async function sendBatch(parts: readonly Waiting[]): Promise<void> {
  const [first] = parts;
  if (first !== undefined && parts.length === 1) return sendAlone(first);
  const open = new Set(parts);
  const ends = new AbortController();
  for (const part of parts)
    part.ask.signal?.addEventListener('abort', () => {
      if (open.delete(part)) part.reject(part.ask.signal?.reason);
      if (open.size === 0) ends.abort();
    });
  // Held until the reply, because its other parts may fill the cache.
  const cached = parts.map(({ key }) => cache.get(key));
  const reads = parts.map(({ name, ask }, index) => {
    const etag = cached[index]?.etag;
    return {
      operation: name,
      ...(ask.path === undefined ? {} : { path: ask.path }),
      ...(ask.query === undefined ? {} : { query: toTexts(ask.query) }),
      ...(ask.body === undefined ? {} : { body: ask.body }),
      ...(etag === undefined ? {} : { etag }),
    };
  });
  try {
    const response = await send('BatchRead', { body: { reads }, signal: ends.signal });
    // The gateway has an earlier version, or its refusal concerns each part: each asks alone, and shows its own refusal.
    if (!response.ok) return [...open].forEach(sendAlone);
    for await (const line of linesOf(response)) {
      const part = parts[line.index];
      if (part === undefined || !open.delete(part)) continue;
      settle(part, line, cached[line.index]);
    }
    if (open.size > 0) throw new Unreachable('the answer broke off');
  } catch (cause) {
    for (const part of open)
      part.reject(cause instanceof Unreachable ? cause : new Unreachable('no answer', { cause }));
  }
}

interface Line {
  readonly index: number;
  readonly status: number;
  readonly etag?: string;
  readonly reply?: unknown;
  readonly error?: unknown;
}

/** @param cached the reply whose ETag the request named */
function settle(
  { key, resolve, reject }: Waiting,
  { status, etag, reply, error }: Line,
  cached: Cached | undefined,
): void {
  if (error !== undefined) {
    if (status === 403) reportRefusal();
    reject(new Refused(status, readRefusal(error)));
    return;
  }
  const json = status === 304 ? cached?.json : reply;
  cache.delete(key);
  if (etag !== undefined) cache.set(key, { etag, json });
  const [oldest] = cache.keys();
  if (cache.size > cachedMax && oldest !== undefined) cache.delete(oldest);
  resolve(json);
}

async function* linesOf({ body }: Response): AsyncGenerator<Line> {
  if (body === null) return;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const lines = (rest + piece.value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line) as Line;
  }
}

const toTexts = (query: object): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(query).flatMap(([name, value]) =>
      value === undefined || value === '' ? [] : [[name, String(value)]],
    ),
  );
