/** Announcements between the real processes of a node. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

test('an act that throws is not acknowledged, keeps no other act from running, and does not end its process', async () => {
  const node = join(import.meta.dirname, '../support/siblings-node.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [node]);
  expect(stdout.trim().split('\n').toSorted()).toEqual([
    'acted',
    'broken: false',
    'failed: Error: this act fails',
    'the next act ran',
    'whole: true',
  ]);
});
