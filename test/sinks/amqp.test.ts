/** Events reach a real RabbitMQ. */
import { Connection } from 'rabbitmq-client';
import { sinkLaws } from '../support/sink-laws.ts';

let count = 0;

sinkLaws({
  server: 'rabbitmq',
  messaging: ['rabbitmq', 'publish'],
  tlsUrl: async (port) => `amqps://127.0.0.1:${port + 3}`,
  async open(port) {
    count += 1;
    const queue = `events-${count}`;
    const bodies: string[] = [];
    const causes: string[] = [];
    const client = new Connection({ hostname: '127.0.0.1', port, retryLow: 50, retryHigh: 200 });
    client.on('error', () => {});
    await client.queueDeclare({ queue, durable: true });
    const consumer = client.createConsumer(
      { queue, queueOptions: { durable: true }, concurrency: 1 },
      async ({ body, headers }) => {
        causes.push(String(headers?.['traceparent'] ?? ''));
        bodies.push(Buffer.isBuffer(body) ? body.toString() : JSON.stringify(body));
      },
    );
    consumer.on('error', () => {});
    return {
      nowhere: {
        fields: { routingKey: `${queue}-nowhere` },
        hint: /bound to the default exchange.*bind one/,
      },
      target: {
        type: 'amqp',
        url: `amqp://127.0.0.1:${port}`,
        routingKey: queue,
        username: 'guest',
        password: 'guest',
      },
      bodies: async () => [...bodies],
      causes: async () => [...causes],
      async [Symbol.asyncDispose]() {
        client.unsafeDestroy();
      },
    };
  },
});
