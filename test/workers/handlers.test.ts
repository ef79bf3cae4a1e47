/** A representative part of the handler suites in workerd: metadata in a Durable Object, bytes in R2, in one process of miniflare. */
import { afterAll, expect, test } from 'vitest';
import { handlerSkips } from './handler-skips.ts';

process.env['SLUICE_TEST_WORKERS'] = '1';
const { skipped, stopWorker } = await import('./handler-world.ts');
afterAll(stopWorker);

await import('../handlers/put-object.test.ts');
await import('../handlers/get-object.test.ts');
await import('../handlers/copy-object.test.ts');

test('the listed tests are skipped, and no others', () => {
  expect([...skipped.keys()].sort()).toEqual(Object.keys(handlerSkips).sort());
});
