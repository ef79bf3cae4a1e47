/** Events reach a real Kafka. */
import { Admin, Consumer, stringDeserializers } from '@platformatic/kafka';
import { type Receiver, sinkLaws } from '../support/sink-laws.ts';

let count = 0;
let readers = 0;

async function read(bootstrapBrokers: string[], topic: string) {
  readers += 1;
  const bodies: string[] = [];
  const causes: string[] = [];
  const consumer = new Consumer({
    groupId: `reader-${readers}`,
    clientId: 'reader',
    bootstrapBrokers,
    deserializers: stringDeserializers,
    autocommit: false,
  });
  const stream = await consumer.consume({
    topics: [topic],
    mode: 'earliest',
    sessionTimeout: 10_000,
    heartbeatInterval: 500,
  });
  stream.on('error', () => {});
  stream.on('data', ({ value, headers }) => {
    bodies.push(value ?? '');
    causes.push(headers.get('traceparent') ?? '');
  });
  return { bodies, causes, close: () => consumer.close(true).catch(() => {}) };
}

sinkLaws({
  server: 'kafka',
  messaging: ['kafka', 'send'],
  tlsUrl: async (port) => `kafkas://127.0.0.1:${port + 3}`,
  noPassword: 'the broker of the tests has no users',
  open: (port) => openTopic(port),
  // A batch of more than one event is too large too, so that each goes alone.
  openBreakable: (port) => openTopic(port, [{ name: 'max.message.bytes', value: '2000' }]),
  breakingKey: 'long'.repeat(225),
});

async function openTopic(port: number, configs: { name: string; value: string }[] = []): Promise<Receiver> {
  count += 1;
  const topic = `events-${count}`;
  const bootstrapBrokers = [`127.0.0.1:${port}`];
  const admin = new Admin({ clientId: 'admin', bootstrapBrokers });
  await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1, configs });
  await admin.close();
  let reader = await read(bootstrapBrokers, topic);
  return {
    nowhere: { fields: { topic: `${topic}-nowhere` }, hint: /create the topic/ },
    target: { type: 'kafka', url: `kafka://127.0.0.1:${port}`, topic },
    bodies: async () => [...reader.bodies],
    causes: async () => [...reader.causes],
    // The stream of the library ends with its broker.
    async afterRestart() {
      await reader.close();
      reader = await read(bootstrapBrokers, topic);
    },
    async [Symbol.asyncDispose]() {
      await reader.close();
    },
  };
}
