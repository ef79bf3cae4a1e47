/** Events reach a real PostgreSQL. */
import postgres from 'postgres';
import { sinkLaws } from '../support/sink-laws.ts';

let count = 0;

sinkLaws({
  server: 'postgres',
  tlsUrl: async (port) => `postgres+tls://127.0.0.1:${port}/postgres`,
  async open(port) {
    count += 1;
    const table = `events_${count}`;
    const client = postgres({
      host: '127.0.0.1',
      port,
      username: 'sluice',
      password: 'sluice',
      max: 1,
      database: 'postgres',
    });
    return {
      target: {
        type: 'postgres',
        url: `postgres://127.0.0.1:${port}/postgres`,
        table,
        username: 'sluice',
        password: 'sluice',
      },
      async bodies() {
        const [found] = await client`SELECT to_regclass(${table}) IS NOT NULL AS here`;
        if (found?.['here'] !== true) return [];
        const rows = await client.unsafe(`SELECT body::text AS body FROM ${table} ORDER BY position`);
        return rows.map((row) => String(row['body']));
      },
      [Symbol.asyncDispose]: () => client.end({ timeout: 0 }),
    };
  },
});
