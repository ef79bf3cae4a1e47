/** Publishes messages to an exchange of an AMQP 0-9-1 broker (RabbitMQ), which confirms each once its queues have it. */
import type { Socket } from 'node:net';
import { loadOptional } from '../../base/optional-packages.ts';
import type { EventSink, SinkFailure, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import { describe, type Place, type Session, sendInWaves, sessionSink } from './session-sink.ts';
import type { SinkOptions } from './sink-options.ts';

/** Bytes of a frame from the broker; the library asks for frames of 8 KiB. */
const frameMax = 64 * 1024;

/**
 * The library reads as many bytes as the header of a frame says, and throws from an event of the socket where that is
 * more than a stream may hold: a server that speaks no AMQP would end the process. Ends the connection instead.
 */
function boundFrames(client: object): void {
  // The cast: the socket exists from the constructor on, and has no public name.
  const { _socket: socket } = client as { readonly _socket: Socket };
  const read = socket.read.bind(socket) as (bytes?: number) => unknown;
  socket.read = (bytes) => {
    if (bytes === undefined || bytes <= frameMax) return read(bytes);
    socket.destroy(new Error('it sent what is no frame of AMQP 0-9-1'));
    return null;
  };
}

export async function openAmqp(target: SinkTarget, options: SinkOptions): Promise<EventSink> {
  const { Connection } = await loadOptional(['rabbitmq-client'], () => import('rabbitmq-client'));
  const exchange = target.exchange ?? '';
  const routingKey = target.routingKey ?? '';
  const vhost = decodeURIComponent(new URL(target.url).pathname.slice(1)) || '/';

  async function connect({ address, port, tls, timeoutMs }: Place, signal: AbortSignal): Promise<Session> {
    const client = new Connection({
      hostname: address,
      port,
      vhost,
      username: target.username ?? 'guest',
      password: target.password ?? 'guest',
      ...(tls === undefined ? {} : { tls: { ...tls } }),
      connectionTimeout: timeoutMs,
      acquireTimeout: timeoutMs,
    });
    boundFrames(client);
    // The library would connect again by itself, so its first error ends the connection.
    const lost = new Promise<never>((_, reject) => {
      client.on('error', (error) => {
        client.unsafeDestroy();
        reject(error);
      });
    });
    lost.catch(() => {});
    signal.addEventListener('abort', () => void (client.ready || client.unsafeDestroy()), { once: true });
    await Promise.race([client.onConnect(timeoutMs, true), lost]);
    const returned = new Set<string>();
    const publisher = client.createPublisher({ confirm: true, maxAttempts: 1 });
    publisher.on('basic.return', ({ messageId }) => void returned.add(messageId ?? ''));
    return {
      lost,
      send: (messages) => sendInWaves(messages, publish),
      close: async () => client.unsafeDestroy(),
    };

    async function publish({
      id,
      contentType,
      body,
      traceparent,
    }: SinkMessage): Promise<SinkFailure | undefined> {
      try {
        // `mandatory`: without it a broker confirms, and forgets, what no queue is bound to.
        const headers = traceparent === undefined ? {} : { traceparent };
        const named = { messageId: id, contentType, headers };
        const envelope = { exchange, routingKey, durable: true, mandatory: true, ...named };
        await publisher.send(envelope, Buffer.from(body));
      } catch (cause) {
        return { kind: classifyFault(cause), error: `the sink answered ${describe(cause)}` };
      }
      // The broker returns a message before it confirms it, and the library tells of it in the next turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      if (!returned.delete(id)) return undefined;
      const where = exchange === '' ? 'the default exchange' : `the exchange ${exchange}`;
      return {
        kind: 'unavailable',
        error: `no queue of the sink is bound to ${where} with the routing key ${routingKey}: bind one`,
      };
    }
  }

  const isTls = new URL(target.url).protocol === 'amqps:';
  return sessionSink(target, options, { port: isTls ? 5671 : 5672, tlsSchemes: ['amqps'], connect });
}

/** Answers about the exchange or the user. */
const targetCodes = new Set(['NOT_FOUND', 'ACCESS_REFUSED', 'NOT_ALLOWED', 'RESOURCE_LOCKED']);

function classifyFault(cause: unknown): SinkFailure['kind'] {
  const { code = '' } = cause as { readonly code?: string };
  // Too large for the broker: it closes the channel, and the library opens another.
  if (code === 'PRECONDITION_FAILED' && /message size/.test(describe(cause))) return 'refused';
  if (code === 'NACK') return 'failed';
  return targetCodes.has(code) ? 'unavailable' : 'lost';
}
