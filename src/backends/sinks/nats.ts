/** Publishes messages to a subject of NATS, and waits until JetStream has stored each in a stream. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { loadOptional } from '../../base/optional-packages.ts';
import type { EventSink, SinkFailure, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import { describe, type Place, type Session, sendInWaves, sessionSink } from './session-sink.ts';
import type { SinkOptions } from './sink-options.ts';

/** Bytes that a server may send before it is connected. */
const greetingMax = 1024 * 1024;

/**
 * The sockets that the library opens in an asynchronous context: it closes none whose server accepts the connection and does not greet, and
 * gathers what such a server sends.
 */
const sockets = new AsyncLocalStorage<Set<Socket>>();
// The cast: the channel has messages of this form.
subscribe('net.client.socket', (message) =>
  sockets.getStore()?.add((message as { readonly socket: Socket }).socket),
);

export async function openNats(target: SinkTarget, options: SinkOptions): Promise<EventSink> {
  const [transport, streams] = await loadOptional(['@nats-io/transport-node', '@nats-io/jetstream'], () =>
    Promise.all([import('@nats-io/transport-node'), import('@nats-io/jetstream')]),
  );
  const subject = target.subject ?? '';

  async function connect({ address, port, tls, timeoutMs }: Place): Promise<Session> {
    const opened = new Set<Socket>();
    const giveUp = (): void => {
      for (const socket of opened) socket.destroy();
    };
    const watch = setInterval(() => {
      for (const { bytesRead } of opened) if (bytesRead > greetingMax) giveUp();
    }, 20);
    const options = {
      servers: `${address.includes(':') ? `[${address}]` : address}:${port}`,
      name: 'sluice',
      ...(target.token === undefined ? {} : { token: target.token }),
      ...(target.username === undefined ? {} : { user: target.username, pass: target.password ?? '' }),
      // TLS only when the URL asks for it, and then never without.
      tls: tls === undefined ? null : (tls as object),
      timeout: timeoutMs,
      reconnect: false,
      // Other addresses of a cluster were not checked.
      ignoreClusterUpdates: true,
    };
    const client = await sockets
      .run(opened, () => transport.connect(options))
      .catch((error: unknown) => {
        giveUp();
        throw error;
      })
      .finally(() => clearInterval(watch));
    const stream = streams.jetstream(client, { timeout: timeoutMs });
    const lost = client.closed().then((cause) => {
      throw cause ?? new Error('the connection was closed');
    });
    lost.catch(() => {});
    return {
      lost,
      send: (messages) => sendInWaves(messages, publish),
      close: () => client.close(),
    };

    async function publish({ id, body, traceparent }: SinkMessage): Promise<SinkFailure | undefined> {
      try {
        // The stream recognizes a repetition by its id.
        const headers = transport.headers();
        if (traceparent !== undefined) headers.set('traceparent', traceparent);
        await stream.publish(subject, body, { msgID: id, timeout: timeoutMs, retries: 0, headers });
        return undefined;
      } catch (cause) {
        return explain(cause);
      }
    }
  }

  function explain(cause: unknown): SinkFailure {
    const text = describe(cause);
    if (/no responders|jetstream is not enabled|503/i.test(text))
      return {
        kind: 'unavailable',
        error: `no stream of the sink takes the subject ${subject}: create a JetStream stream with it`,
      };
    if (/maximum payload|max_payload|message size exceeds/i.test(text))
      return { kind: 'refused', error: `the sink answered ${text}` };
    const isAnswer = cause instanceof streams.JetStreamError || cause instanceof streams.JetStreamApiError;
    return { kind: isAnswer ? 'failed' : 'lost', error: `the sink answered ${text}` };
  }

  return sessionSink(target, options, { port: 4222, tlsSchemes: ['tls'], connect });
}
