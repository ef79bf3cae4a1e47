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
import { exceptions, operations } from './operations.ts';

/** The last answer to a read, for polls: the gateway sends another one only. */
const kept = new Map<string, { readonly etag: string; readonly json: unknown }>();
const keptMax = 24;
/** What one caller has read is not kept for the next. */
export const forgetReads = (): void => kept.clear();
const readsMax = 32;
/** Polls that are due at the same time are told apart by the timers of the browser, by a few ms. */
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
  operations[name]?.startsWith('GET ') !== exceptions.includes(name);

/**
 * As `call`, for what a page shows.
 * @param isPoll it can wait for others that are due now
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

const alone = ({ name, ask, resolve, reject }: Waiting): void => {
  call(name, ask).then(resolve, reject);
};

async function sendBatch(parts: readonly Waiting[]): Promise<void> {
  const [first] = parts;
  if (first !== undefined && parts.length === 1) return alone(first);
  const open = new Set(parts);
  const ends = new AbortController();
  for (const part of parts)
    part.ask.signal?.addEventListener('abort', () => {
      if (open.delete(part)) part.reject(part.ask.signal?.reason);
      if (open.size === 0) ends.abort();
    });
  const reads = parts.map(({ name, ask, key }) => {
    const etag = kept.get(key)?.etag;
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
    // A gateway of an earlier version, or what refuses each part too.
    if (!response.ok) return [...open].forEach(alone);
    for await (const line of linesOf(response)) {
      const part = parts[line.index];
      if (part === undefined || !open.delete(part)) continue;
      settle(part, line);
    }
    throw new Unreachable('the answer broke off');
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

function settle({ key, resolve, reject }: Waiting, { status, etag, reply, error }: Line): void {
  if (error !== undefined) {
    if (status === 403) reportRefusal();
    reject(new Refused(status, readRefusal(error)));
    return;
  }
  const before = kept.get(key);
  kept.delete(key);
  const json = status === 304 ? before?.json : reply;
  if (etag !== undefined) kept.set(key, { etag, json });
  const [oldest] = kept.keys();
  if (kept.size > keptMax && oldest !== undefined) kept.delete(oldest);
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
