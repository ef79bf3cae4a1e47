/** The master key file: created once in the data directory, refused with one line when it is invalid, never printed. */
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemRandom } from '../../src/ports/random.ts';
import { loadConfiguration } from '../../src/runtime/compose/configuration.ts';
import { readMasterKeyFile, storedMasterKeys } from '../../src/runtime/secret-file.ts';

const random = systemRandom();
let dataDir = '';
let path = '';
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'sluice-'));
  path = join(dataDir, 'master.key');
});
const mayMake = async (): Promise<boolean> => true;
afterEach(() => rm(dataDir, { recursive: true, force: true }));

const one = Buffer.alloc(32, 1);
const two = Buffer.alloc(32, 2);

test('is created in the data directory with mode 0600, and reused', async () => {
  const made = await storedMasterKeys({ path, dataDir, random, mayMake });
  expect(made).toHaveLength(1);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await storedMasterKeys({ path, dataDir, random, mayMake })).toEqual(made);
  expect(await readdir(dataDir)).toEqual(['master.key']);
});

test('is one and the same for processes that start together', async () => {
  const made = await Promise.all(
    Array.from({ length: 8 }, async (_, index) => {
      await new Promise((resolve) => setTimeout(resolve, index));
      return storedMasterKeys({ path, dataDir, random, mayMake });
    }),
  );
  expect(new Set(made.map(([key]) => Buffer.from(key ?? []).toString('hex'))).size).toBe(1);
});

test('is not created where a setting names it, because a new key would open nothing', async () => {
  const elsewhere = join(dataDir, 'other.key');
  await expect(storedMasterKeys({ path: elsewhere, dataDir, random, mayMake })).rejects.toThrow(
    'other.key cannot be read: ENOENT',
  );
  const { faults } = await loadConfiguration({
    env: { SVC_MASTER_KEY_FILE: elsewhere },
    flags: {},
    prepares: false,
  });
  expect(faults).toEqual([`SVC_MASTER_KEY_FILE=${elsewhere} cannot be read: ENOENT`]);
});

test('holds the current key first, then older ones; blank lines and comments are passed over', async () => {
  await writeFile(path, `# since May\n${two.toString('base64')}\n\n ${one.toString('base64')} \n`, {
    mode: 0o600,
  });
  const { value: keys = [], faults, warnings } = await readMasterKeyFile(path);
  expect({ keys: keys.map((key) => Buffer.from(key)), faults, warnings }).toEqual({
    keys: [two, one],
    faults: [],
    warnings: [],
  });
});

test('is refused by line and never shown', async () => {
  const secret = one.toString('base64').slice(0, 20);
  await writeFile(path, `${two.toString('base64')}\n${secret}\n`);
  const { faults } = await readMasterKeyFile(path);
  expect(faults).toEqual([`SVC_MASTER_KEY_FILE=${path} line 2 is not the base64 of 32 bytes`]);
  await writeFile(path, '\n');
  expect((await readMasterKeyFile(path)).faults[0]).toContain('has no key');
  await writeFile(path, one.toString('base64'));
  await chmod(path, 0o644);
  expect((await readMasterKeyFile(path)).warnings).toEqual([
    `SVC_MASTER_KEY_FILE=${path} is readable by everyone`,
  ]);
});

test('every fault is reported, and a start uses the checked file', async () => {
  await writeFile(path, 'nonsense');
  const { faults } = await loadConfiguration({
    env: { SVC_DATA_DIR: dataDir, SVC_CREDENTIALS_FILE: join(dataDir, 'none') },
    flags: {},
    prepares: true,
  });
  expect(faults).toHaveLength(2);
  expect(await readFile(path, 'utf8')).toBe('nonsense');
});
