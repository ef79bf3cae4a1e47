/** The memory of refused access logs is bounded, and an account with many of them takes no room from the others. */
import { expect, test } from 'vitest';
import { RefusedLogs } from '../../src/domain/deliveries/refused-logs.ts';

const sampleOf = (account: string) => ({
  target: { bucket: 'logs', prefix: '' },
  account,
  region: 'default',
  bucket: 'bucket',
  key: 'key',
});

test('the oldest logs of the account with the most are forgotten, and not those of others', () => {
  const refused = new RefusedLogs();
  const refuse = (log: string, account: string): void =>
    refused.refuse(log, { sample: sampleOf(account) as never, write: undefined });
  refuse('first of alice', 'alice');
  for (let n = 0; n < 12_000; n += 1) refuse(`bob ${n}`, 'bob');
  refuse('last of alice', 'alice');
  const logs = refused.entries().map(([log]) => log);
  expect(logs).toHaveLength(10_000);
  expect(logs.filter((log) => log.endsWith('alice'))).toEqual(['first of alice', 'last of alice']);
  expect(logs).not.toContain('bob 0');
  expect(logs).toContain('bob 11999');
});
