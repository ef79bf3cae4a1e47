/** Events reach a real PostgreSQL. */
import postgres from 'postgres';
import { type Receiver, sinkLaws } from '../support/sink-laws.ts';

let count = 0;

const user = { username: 'sluice', password: 'sluice' };

const connect = (port: number, database: string) =>
  postgres({ host: '127.0.0.1', port, ...user, max: 1, database });

async function openTable(port: number, database = 'postgres'): Promise<Receiver> {
  count += 1;
  const table = `events_${count}`;
  const client = connect(port, database);
  return {
    target: { type: 'postgres', url: `postgres://127.0.0.1:${port}/${database}`, table, ...user },
    async bodies() {
      const [found] = await client`SELECT to_regclass(${table}) IS NOT NULL AS here`;
      if (found?.['here'] !== true) return [];
      const rows = await client.unsafe(`SELECT body::text AS body FROM ${table} ORDER BY position`);
      return rows.map((row) => String(row['body']));
    },
    [Symbol.asyncDispose]: () => client.end({ timeout: 0 }),
  };
}

sinkLaws({
  server: 'postgres',
  messaging: ['postgresql', 'INSERT'],
  tlsUrl: async (port) => `postgres+tls://127.0.0.1:${port}/postgres`,
  open: (port) => openTable(port),
  async openNarrow(port) {
    const client = connect(port, 'postgres');
    await client.unsafe(
      `CREATE DATABASE narrow ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
    );
    await client.end();
    return openTable(port, 'narrow');
  },
});
