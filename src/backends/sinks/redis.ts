/** Adds messages to a stream or a list of Redis (or Valkey). A batch is one transaction, which applies as a whole. */

import { loadOptional } from '../../base/optional-packages.ts';
import type { Delivery, EventSink, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import { describe, type Place, type Session, sessionSink } from './session-sink.ts';
import type { SinkOptions } from './sink-options.ts';

export async function openRedis(target: SinkTarget, options: SinkOptions): Promise<EventSink> {
  const { Redis } = await loadOptional(['ioredis'], () => import('ioredis'));
  const key = target.key ?? '';
  const database = Number(new URL(target.url).pathname.slice(1) || '0');

  async function connect({ address, port, tls, timeoutMs }: Place, signal: AbortSignal): Promise<Session> {
    const client = new Redis({
      host: address,
      port,
      db: database,
      ...(target.username === undefined ? {} : { username: target.username }),
      ...(target.password === undefined ? {} : { password: target.password }),
      ...(tls === undefined ? {} : { tls }),
      connectTimeout: timeoutMs,
      lazyConnect: true,
      // No queue and no reconnect of the library's own.
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
    });
    // The library says only "Connection is closed." to the caller; the cause is in its event.
    let heard: unknown;
    client.on('error', (error: unknown) => {
      heard = error;
    });
    // A server that accepts the connection and never answers.
    signal.addEventListener('abort', () => void (client.status === 'ready' || client.disconnect()), {
      once: true,
    });
    try {
      await client.connect();
    } catch (error) {
      client.disconnect();
      throw heard ?? error;
    }
    return {
      async send(messages): Promise<Delivery> {
        const batch = client.multi();
        for (const message of messages) batch.call(...buildCommand(message));
        const answers = await batch.exec();
        if (answers === null) throw new Error('the transaction was discarded');
        const failed = answers.findIndex(([error]) => error !== null);
        if (failed < 0) return { delivered: messages.length };
        const error = `the sink answered ${describe(answers[failed]?.[0])}`;
        // Each other command of a transaction was applied nevertheless: those behind the failed one are delivered
        // again. All of them are about one key of the server.
        return { delivered: failed, failure: { kind: 'unavailable', error } };
      },
      async close() {
        client.disconnect();
      },
    };
  }

  function buildCommand({ id, subject, contentType, body, traceparent }: SinkMessage): [string, ...string[]] {
    if (target.mode === 'list') return ['RPUSH', key, body];
    const limit = target.maxLength === undefined ? [] : ['MAXLEN', '~', String(target.maxLength)];
    const fields = ['id', id, 'subject', subject, 'contentType', contentType, 'body', body];
    const cause = traceparent === undefined ? [] : ['traceparent', traceparent];
    return ['XADD', key, ...limit, '*', ...fields, ...cause];
  }

  return sessionSink(target, options, { port: 6379, tlsSchemes: ['rediss'], connect });
}
