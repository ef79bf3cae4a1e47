/** Handler suites in workerd with the metadata in three Durable Objects: those about what a commit changes beside its row. */
import { afterAll, expect, test } from 'vitest';
import { handlerSkips } from './handler-skips.ts';

process.env['SLUICE_TEST_WORKERS'] = '1';
process.env['SLUICE_TEST_SHARDS'] = '3';
const { skipped, stopWorker } = await import('./handler-world.ts');
afterAll(stopWorker);

await import('../handlers/put-object.test.ts');
await import('../handlers/copy-object.test.ts');

test('no tests are skipped but those of the list', () => {
  expect(Object.keys(handlerSkips)).toEqual(expect.arrayContaining([...skipped.keys()]));
});
