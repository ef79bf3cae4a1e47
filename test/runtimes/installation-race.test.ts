/** Gateways that start new installations on the same chunks at the same time: exactly one succeeds. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import { configWith } from '../../src/config/read-config.ts';
import { findInstallation, type InstallationMode } from '../../src/metadata/installation.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { checkInstallation } from '../../src/runtime/installation.ts';
import { keepFile } from '../../src/runtime/secret-file.ts';

let root: string;
const config = () => configWith({ SVC_DATA_DIR: root });
const chunks = () => join(root, 'chunks/default');
const markPath = () => join(chunks(), 'installation.json');
const marked = async (): Promise<string> => JSON.parse(await readFile(markPath(), 'utf8')).id;
const random = systemRandom();
const emptyMetadata = (): MetadataStore => memoryStore({ clock: systemClock, random });
const check = async (metadata: MetadataStore, mode: InstallationMode): Promise<string> => {
  const checked = await checkInstallation(metadata, { config: config(), random, mode, keys: [] });
  return checked.id ?? '';
};

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-installation-race-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** @returns the installation ids of the gateways that started, and the messages of the others */
async function race(stores: readonly MetadataStore[], mode: InstallationMode) {
  const settled = await Promise.allSettled(stores.map((metadata) => check(metadata, mode)));
  const accepted = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const refused = settled.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []));
  return { accepted, refused };
}

test.each<InstallationMode>(['start', 'init'])(
  'of eight installations that begin beside the same chunks (%s) one serves, also after a restart',
  async (mode) => {
    for (let round = 0; round < 10; round += 1) {
      await rm(chunks(), { recursive: true, force: true });
      const former = { id: '0'.repeat(32), format: 1 };
      if (mode === 'init') await keepFile(markPath(), `${JSON.stringify(former)}\n`);
      const stores = Array.from({ length: 8 }, emptyMetadata);
      const { accepted, refused } = await race(stores, mode);
      expect(accepted).toEqual([await marked()]);
      expect(refused).toHaveLength(7);
      // None of the refused gateways takes the chunks over when it is started again.
      const again = await race(stores, 'start');
      expect(again.accepted).toEqual(accepted);
      for (const reason of again.refused)
        expect(reason).toMatch(/belong to installation|sluice serve --init/);
      expect(await marked()).toBe(accepted[0]);
    }
  },
);

test('a process that finds no installation, and then the marks of one that another process has begun meanwhile, is let in', async () => {
  const metadata = emptyMetadata();
  let begun: Promise<string> | undefined;
  const lateGet: MetadataStore['get'] = async (...asked) => {
    const found = await metadata.get(...asked);
    begun ??= check(metadata, 'start');
    await begun;
    return found;
  };
  const late = new Proxy(metadata, {
    get: (store, name) => (name === 'get' ? lateGet : Reflect.get(store, name).bind(store)),
  });
  expect(await check(late, 'start')).toBe(await begun);
});

test('processes of one installation that replace a mark together are all let in, and the mark is always there', async () => {
  await keepFile(markPath(), `${JSON.stringify({ id: '0'.repeat(32), format: 1 })}\n`);
  const metadata = emptyMetadata();
  let isOver = false;
  const watching = (async () => {
    for (; !isOver; await new Promise((resolve) => setTimeout(resolve, 0))) await marked();
  })();
  const { accepted, refused } = await race(
    Array.from({ length: 8 }, () => metadata),
    'init',
  );
  isOver = true;
  await watching;
  expect(refused).toEqual([]);
  expect(new Set(accepted)).toEqual(new Set([await marked()]));
  expect((await findInstallation(metadata))?.state.isMarking).toBeUndefined();
});

test('a lock file that a killed gateway left is reported, and its own installation takes it over', async () => {
  await keepFile(markPath(), `${JSON.stringify({ id: '0'.repeat(32), format: 1 })}\n`);
  const claim = `${markPath()}.claim`;
  await writeFile(claim, `${JSON.stringify({ id: '1'.repeat(32), format: 1 })}\n`);
  const metadata = emptyMetadata();
  await expect(check(metadata, 'init')).rejects.toThrow(claim);
  const own = (await findInstallation(metadata))?.state.id ?? '';
  await writeFile(claim, `${JSON.stringify({ id: own, format: 1 })}\n`);
  expect(await check(metadata, 'init')).toBe(own);
  expect(await marked()).toBe(own);
});
