/** Events reach a real Redis. */
import { Redis } from 'ioredis';
import { type Receiver, sinkLaws } from '../support/sink-laws.ts';

let count = 0;

async function open(port: number, mode: 'stream' | 'list'): Promise<Receiver> {
  count += 1;
  const key = `events-${count}`;
  const client = new Redis({ host: '127.0.0.1', port, password: 'right' });
  client.on('error', () => {});
  return {
    target: { type: 'redis', url: `redis://127.0.0.1:${port}`, key, mode, password: 'right' },
    async bodies() {
      if (mode === 'list') return client.lrange(key, 0, -1);
      return (await client.xrange(key, '-', '+')).map(
        ([, fields]) => fields[fields.indexOf('body') + 1] ?? '',
      );
    },
    async [Symbol.asyncDispose]() {
      client.disconnect();
    },
  };
}

for (const mode of ['stream', 'list'] as const)
  sinkLaws({
    server: 'redis',
    tlsUrl: async (port) => `rediss://127.0.0.1:${port + 3}`,
    environment: { REDIS_ARGS: '--requirepass right' },
    open: (port) => open(port, mode),
  });
