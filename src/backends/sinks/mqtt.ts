/** Publishes messages to a topic of an MQTT 5 broker with QoS 1: the broker acknowledges each. */

import { loadOptional } from '../../base/optional-packages.ts';
import type { EventSink, SinkFailure, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import { describe, type Place, type Session, sendInWaves, sessionSink } from './session-sink.ts';
import type { SinkOptions } from './sink-options.ts';

/**
 * Characters that texts of MQTT should not have (https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html, 1.5.4): a broker may close the
 * connection for them, so that one key with such a character would hold up the events of all.
 */
const refusedByBrokers = /[\p{Cc}\p{Noncharacter_Code_Point}]/gu;

const toMqttText = (text: string): string => text.replace(refusedByBrokers, encodeURIComponent);

export async function openMqtt(target: SinkTarget, options: SinkOptions): Promise<EventSink> {
  const { default: mqtt } = await loadOptional(['mqtt'], () => import('mqtt'));
  const topic = target.topic ?? '';

  async function connect({ address, port, tls, timeoutMs }: Place, signal: AbortSignal): Promise<Session> {
    const client = mqtt.connect({
      host: address,
      port,
      protocol: tls === undefined ? 'mqtt' : 'mqtts',
      ...tls,
      ...(target.username === undefined ? {} : { username: target.username }),
      ...(target.password === undefined ? {} : { password: target.password }),
      protocolVersion: 5,
      clean: true,
      connectTimeout: timeoutMs,
      // No reconnect and no queue of the library's own.
      reconnectPeriod: 0,
      queueQoSZero: false,
      resubscribe: false,
    });
    let heard: unknown;
    const lost = new Promise<never>((_, reject) => {
      client.on('error', (error) => {
        heard = error;
        reject(error);
      });
      client.on('close', () => reject(heard ?? new Error('the connection was closed')));
    });
    lost.catch(() => {});
    const close = async (): Promise<void> => void client.end(true);
    signal.addEventListener('abort', () => void (client.connected || close()), { once: true });
    const connected = new Promise<void>((resolve) => client.once('connect', () => resolve()));
    await Promise.race([connected, lost]).catch(async (error: unknown) => {
      await close();
      throw error;
    });
    return { lost, close, send: (messages) => sendInWaves(messages, publish) };

    async function publish({
      id,
      subject,
      contentType,
      body,
      traceparent,
    }: SinkMessage): Promise<SinkFailure | undefined> {
      try {
        const userProperties: Record<string, string> = { id, subject: toMqttText(subject) };
        if (traceparent !== undefined) userProperties['traceparent'] = traceparent;
        const properties = { contentType, userProperties };
        await client.publishAsync(topic, body, { qos: 1, properties });
        return undefined;
      } catch (cause) {
        const { code } = cause as { readonly code?: number };
        // 149: the packet is too large for this broker. 153: it does not take such a payload.
        const isFinal = code === 149 || code === 153;
        // Without a code the broker has not answered.
        const kind = isFinal ? 'refused' : typeof code === 'number' ? 'failed' : 'lost';
        return { kind, error: `the sink answered ${describe(cause)}` };
      }
    }
  }

  return sessionSink(target, options, { port: 1883, tlsSchemes: ['mqtts'], connect });
}
