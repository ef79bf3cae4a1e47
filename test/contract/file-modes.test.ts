/** Files of stored objects are readable by the server's user only, for any umask and in existing directories. */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { backUp } from '../../src/runtime/backup/cli-backup.ts';
import { openGateway } from '../support/gateway.ts';

const modesUnder = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true }).map((entry) => {
    const { mode } = statSync(join(entry.parentPath, entry.name));
    return `${entry.isDirectory() ? 'directory' : 'file'} ${(mode & 0o777).toString(8)}`;
  });

test('a backup has files of 0600 and directories of 0700 for any umask', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-modes-'));
  const umask = process.umask(0);
  try {
    await using world = await openGateway({ backend: 'embedded+file' });
    await world.client.put('/bucket');
    await world.client.put('/bucket/small', { body: 'x' });
    await world.client.put('/bucket/large', { body: 'x'.repeat(5 * 1024 * 1024) });
    await backUp(world.context, { to: join(directory, 'backup'), signal: new AbortController().signal });
    const modes = modesUnder(directory);
    expect(modes.filter((mode) => mode.startsWith('file')).length).toBeGreaterThan(3);
    expect(new Set(modes)).toEqual(new Set(['file 600', 'directory 700']));
  } finally {
    process.umask(umask);
    rmSync(directory, { recursive: true, force: true });
  }
});

test('files are 0600 and directories 0700 in a data directory that others could read before', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-modes-'));
  const umask = process.umask(0o022);
  try {
    mkdirSync(join(directory, 'chunks'), { mode: 0o700 });
    for (const path of ['default', 'default/large', 'default/segments', '../metadata']) {
      mkdirSync(join(directory, 'chunks', path));
      chmodSync(join(directory, 'chunks', path), 0o755);
    }
    await using world = await openGateway({
      backend: 'embedded+file',
      settings: { SVC_DATA_DIR: directory },
    });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/small', { body: 'x' });
    await client.put('/bucket/large', { body: 'x'.repeat(5 * 1024 * 1024) });
    await client.delete('/bucket/small');
    await world.gc();
    const modes = modesUnder(directory);
    expect(modes.filter((mode) => mode.startsWith('file')).length).toBeGreaterThan(3);
    expect(new Set(modes)).toEqual(new Set(['file 600', 'directory 700']));
  } finally {
    process.umask(umask);
    rmSync(directory, { recursive: true, force: true });
  }
});
