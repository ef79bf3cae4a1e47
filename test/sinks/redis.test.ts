/** Events reach a real Redis. */
import { Redis } from 'ioredis';
import { type Receiver, sinkLaws } from '../support/sink-laws.ts';

let count = 0;

async function open(port: number, mode: 'stream' | 'list'): Promise<Receiver> {
  count += 1;
  const key = `events-${count}`;
  const client = new Redis({ host: '127.0.0.1', port, password: 'right' });
  client.on('error', () => {});
  const fieldOf = async (name: string): Promise<readonly string[]> =>
    (await client.xrange(key, '-', '+')).map(([, fields]) => fields[fields.indexOf(name) + 1] ?? '');
  return {
    target: { type: 'redis', url: `redis://127.0.0.1:${port}`, key, mode, password: 'right' },
    async bodies() {
      return mode === 'list' ? client.lrange(key, 0, -1) : fieldOf('body');
    },
    ...(mode === 'list' ? {} : { causes: () => fieldOf('traceparent') }),
    async [Symbol.asyncDispose]() {
      client.disconnect();
    },
  };
}

for (const mode of ['stream', 'list'] as const)
  sinkLaws({
    server: 'redis',
    messaging: ['redis', mode === 'list' ? 'RPUSH' : 'XADD'],
    tlsUrl: async (port) => `rediss://127.0.0.1:${port + 3}`,
    environment: { REDIS_ARGS: '--requirepass right' },
    open: (port) => open(port, mode),
  });
