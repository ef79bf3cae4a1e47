/** Events reach a real Mosquitto. */
import mqtt from 'mqtt';
import { vi } from 'vitest';
import { until } from '../support/notify-world.ts';
import { sinkLaws } from '../support/sink-laws.ts';

let count = 0;

sinkLaws({
  server: 'mosquitto',
  messaging: ['mqtt', 'publish'],
  tlsUrl: async (port) => `mqtts://127.0.0.1:${port + 3}`,
  losesUnread: true,
  async open(port) {
    count += 1;
    const topic = `events/${count}`;
    const bodies: string[] = [];
    const causes: string[] = [];
    const client = mqtt.connect({
      host: '127.0.0.1',
      port,
      username: 'sluice',
      password: 'sluice',
      protocolVersion: 5,
      reconnectPeriod: 50,
    });
    let subscriptions = 0;
    client.on('connect', () =>
      client.subscribe(topic, { qos: 1 }, () => {
        subscriptions += 1;
      }),
    );
    client.on('error', () => {});
    client.on('message', (_, body, { properties }) => {
      bodies.push(body.toString());
      causes.push(String(properties?.userProperties?.['traceparent'] ?? ''));
    });
    const untilSubscribed = (times: number): Promise<void> =>
      vi.waitFor(() => {
        if (subscriptions < times) throw new Error('the reader is not subscribed');
      }, until);
    await untilSubscribed(1);
    return {
      target: {
        type: 'mqtt',
        url: `mqtt://127.0.0.1:${port}`,
        topic,
        username: 'sluice',
        password: 'sluice',
      },
      bodies: async () => [...bodies],
      causes: async () => [...causes],
      afterRestart: () => untilSubscribed(2),
      async [Symbol.asyncDispose]() {
        client.end(true);
      },
    };
  },
});
