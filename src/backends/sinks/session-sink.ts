/**
 * A sink that holds one connection, of which the owners of the messages take turns. A failed or late delivery closes it,
 * and the next delivery connects anew: the client libraries neither reconnect nor queue by themselves, so the pauses of
 * the notify worker are the only backoff, and each connect checks the address.
 */

import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { Delivery, EventSink, SinkFailure, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import { resolveGuarded } from '../egress.ts';
import { sharedSink } from './shared-sink.ts';
import type { SinkOptions } from './sink-options.ts';

interface Tls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** The name in the certificate; empty where the URL has an address. */
  readonly servername: string;
}

/** Where a session connects to. */
export interface Place {
  /** Resolved and checked. */
  readonly address: string;
  readonly port: number;
  /** The host of the URL. */
  readonly host: string;
  readonly tls: Tls | undefined;
  readonly timeoutMs: number;
}

export interface Session {
  /** Delivers in order. Throws when the connection is of no use any more. */
  send(messages: readonly SinkMessage[]): Promise<Delivery>;
  /** Rejects when the connection ends; never resolves. Absent where `send` rejects by itself. */
  readonly lost?: Promise<never>;
  /** Ends the connection at once, and rejects what is still sent. */
  close(): Promise<void>;
}

interface SessionKind {
  readonly port: number;
  /** Schemes of URLs that ask for TLS. */
  readonly tlsSchemes: readonly string[];
  connect(place: Place, signal: AbortSignal): Promise<Session>;
}

/**
 * Deliveries on their way at a time; one owner alone has four of these turns. A broker works through a connection in
 * order, so each delivery waits for those before it, and its time-out ends the connection of all.
 */
export const sessionTurnsMax = 5;

const readText = (path: string | undefined): Promise<string> | undefined =>
  path === undefined ? undefined : readFile(path, 'utf8');

export async function readTls(target: SinkTarget, host: string): Promise<Tls> {
  const [ca, cert, key] = await Promise.all(
    [target.caFile, target.certFile, target.keyFile].map((path) => readText(path)),
  );
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    servername: isIP(host) === 0 ? host : '',
  };
}

export async function sessionSink(
  target: SinkTarget,
  { mayReach, timeoutMs, clock }: SinkOptions,
  { port, tlsSchemes, connect }: SessionKind,
): Promise<EventSink> {
  const url = new URL(target.url);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const tls = tlsSchemes.includes(url.protocol.slice(0, -1)) ? await readTls(target, host) : undefined;
  let current: Promise<Session> | undefined;

  const open = async (): Promise<Session> => {
    const late = AbortSignal.timeout(timeoutMs);
    const address = await resolveGuarded(host, mayReach);
    return connect({ address, port: Number(url.port) || port, host, tls, timeoutMs }, late);
  };
  const drop = (session: Promise<Session>): void => {
    // Of the deliveries that fail together, the first closes their session.
    if (current !== session) return;
    current = undefined;
    void session.then((opened) => opened.close()).catch(() => {});
  };

  async function deliver(messages: readonly SinkMessage[], signal: AbortSignal): Promise<Delivery> {
    signal.throwIfAborted();
    current ??= open();
    const session = current;
    let isConnected = false;
    try {
      const delivery = await inTime(
        session.then((opened) => {
          isConnected = true;
          const sent = opened.send(messages);
          return opened.lost === undefined ? sent : Promise.race([sent, opened.lost]);
        }),
        { timeoutMs, signal },
      );
      const { kind } = delivery.failure ?? {};
      if (kind === 'unavailable' || kind === 'lost') drop(session);
      return delivery.failure === undefined ? delivery : hideSecrets(delivery, target);
    } catch (cause) {
      drop(session);
      signal.throwIfAborted();
      const error = cause instanceof Late ? cause.message : `the sink cannot be used: ${describe(cause)}`;
      const kind = isConnected ? 'lost' : 'unavailable';
      return hideSecrets({ delivered: 0, failure: { kind, error } }, target);
    }
  }

  const sink: EventSink = {
    deliver,
    async close() {
      const session = current;
      current = undefined;
      await session?.then((opened) => opened.close()).catch(() => {});
    },
  };
  return sharedSink(sink, { clock, max: sessionTurnsMax });
}

class Late extends Error {}

/** Settles like the promise; rejects when the time is over or the signal aborts. */
function inTime<T>(
  promise: Promise<T>,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Late(`the sink did not acknowledge within ${timeoutMs} ms`)),
      timeoutMs,
    );
    const stop = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    });
  });
}

const errorMax = 500;

/** The message of an error, or of the first one that it gathers or hides. */
export function describe(cause: unknown): string {
  const { message, errors, code, cause: inner } = (cause ?? {}) as Record<string, unknown>;
  const first = Array.isArray(errors) ? errors[0] : inner;
  const own = typeof message === 'string' && message !== '' ? message : String(code ?? cause);
  const rest = first === undefined || first === null ? '' : describe(first);
  return (rest === '' || own.includes(rest) ? own : `${own}: ${rest}`).slice(0, errorMax);
}

/** Servers and libraries repeat in their errors what they were given. */
function hideSecrets(delivery: Delivery, { password, token, secret }: SinkTarget): Delivery {
  if (delivery.failure === undefined) return delivery;
  const { kind, error } = delivery.failure;
  const secrets = [password, token, secret].filter((each) => each !== undefined && each !== '');
  const hidden = secrets.reduce<string>((text, each) => text.replaceAll(each as string, '***'), error);
  return { ...delivery, failure: { kind, error: hidden } };
}

// Sends messages one beside the other, but those of one subject one after the other: when one of them fails, none of its subject has
// overtaken it.

/** The longest prefixes in which no subject is twice. */
export function* waves(messages: readonly SinkMessage[], max = messages.length): Generator<SinkMessage[]> {
  let wave: SinkMessage[] = [];
  const subjects = new Set<string>();
  for (const message of messages) {
    if (subjects.has(message.subject) || wave.length >= max) {
      yield wave;
      wave = [];
      subjects.clear();
    }
    subjects.add(message.subject);
    wave.push(message);
  }
  if (wave.length > 0) yield wave;
}

/** @param send resolves when the sink has acknowledged; with a failure when it has not */
export async function sendInWaves(
  messages: readonly SinkMessage[],
  send: (message: SinkMessage) => Promise<SinkFailure | undefined>,
): Promise<Delivery> {
  let delivered = 0;
  for (const wave of waves(messages)) {
    const answers = await Promise.all(wave.map(send));
    const failed = answers.findIndex((failure) => failure !== undefined);
    if (failed >= 0) return { delivered: delivered + failed, failure: answers[failed] as SinkFailure };
    delivered += wave.length;
  }
  return { delivered };
}
