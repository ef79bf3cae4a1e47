/** Events reach a real NATS server with JetStream. */
import { jetstreamManager, type StoredMsg } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { sinkLaws } from '../support/sink-laws.ts';

let count = 0;

sinkLaws({
  server: 'nats',
  messaging: ['nats', 'publish'],
  tlsUrl: async (port) => `tls://127.0.0.1:${port}`,
  environment: { NATS_ARGS: '--user sluice --pass right' },
  async open(port) {
    count += 1;
    const name = `events-${count}`;
    const client = await connect({
      servers: `127.0.0.1:${port}`,
      user: 'sluice',
      pass: 'right',
      // The server offers TLS too.
      tls: null,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 50,
    });
    const manager = await jetstreamManager(client);
    await manager.streams.add({ name, subjects: [name] });
    const messages = async () => {
      const { state } = await manager.streams.info(name);
      const found: (StoredMsg | null)[] = [];
      for (let seq = Math.max(state.first_seq, 1); seq <= state.last_seq; seq += 1)
        found.push(await manager.streams.getMessage(name, { seq }));
      return found;
    };
    return {
      nowhere: { fields: { subject: `${name}-nowhere` }, hint: /create a JetStream stream/ },
      target: {
        type: 'nats',
        url: `nats://127.0.0.1:${port}`,
        subject: name,
        username: 'sluice',
        password: 'right',
      },
      bodies: async () => (await messages()).map((message) => message?.string() ?? ''),
      causes: async () => (await messages()).map((message) => message?.header.get('traceparent') ?? ''),
      [Symbol.asyncDispose]: () => client.close(),
    };
  },
});
