/** The largest state of each kind of task fits into a row: one that does not could never be saved, and its worker would stand still. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { emptyings } from '../../src/domain/buckets/force-empty.ts';
import { runs } from '../../src/domain/inventory/runs.ts';
import { emptyTally, lifecycleTasks } from '../../src/domain/lifecycle/progress.ts';
import { resyncs } from '../../src/domain/replication/resync.ts';
import { type DamagedContent, scrubRuns } from '../../src/domain/scrub/saved-scrub.ts';
import { importRuns } from '../../src/domain/storage/import.ts';
import { rewrappings } from '../../src/domain/storage/rewrap.ts';
import { firstThatFit, stateBytesMax, type TaskKind } from '../../src/metadata/background/tasks.ts';
import { commitLimits, rowBytes } from '../../src/ports/metadata-store.ts';
import { sourceFiles } from '../tidy/source-files.ts';

/** The longest as JSON: six bytes for each of 1,024. */
const key = '\u0001'.repeat(1_024);
const bucket = 'b'.repeat(255);
const id = 'i'.repeat(64);
const place = { space: 'history', key, slot: 's'.repeat(64) } as never;
const at = 1_790_000_000_000;
/** As `describeError` bounds it. */
const error = '\u0001'.repeat(500);
const progress = {
  startedAt: at,
  updatedAt: at,
  done: { count: at, bytes: at },
  perSecond: { count: 1 / 3, bytes: 1 / 3 },
  measured: { at, done: { count: at, bytes: at } },
  lastError: { at, message: error },
  bucket,
};
const read = { read: at, damagedChunks: at };
const upload = { key, uploadId: id } as never;

const largest = <State>({ kind }: TaskKind<State>, state: State): readonly [string, unknown] => [kind, state];
const counted = Object.fromEntries(
  firstThatFit(
    Array.from({ length: 1_000 }, (_, n) => [String(n).padStart(255, '\u0001'), at] as const),
    6 * 1024,
  ),
);
const tally = Object.fromEntries(Object.keys(emptyTally).map((name) => [name, at])) as never;
const lifecycle = {
  ...{ bucket, token: id, tally, byRule: counted, startedAt: at, finishedAt: at, nextAt: at },
  first: { current: at, noncurrent: at, marker: at, upload: at } as never,
};

test.each([
  largest(lifecycleTasks, {
    ...lifecycle,
    indexing: { at: 'done' },
    position: { kind: 'noncurrent' as never, day: at, slot: at, prefix: key, after: { key, version: id } },
  }),
  largest(lifecycleTasks, { ...lifecycle, indexing: { at: 'objects', after: place } }),
  largest(emptyings, {
    ...{ bucket, phase: 'history', after: place, requestId: id, startedAt: at, finishedAt: at, kept: at },
    deleted: { versions: at, markers: at, uploads: at },
    bytes: { deleted: at, kept: at },
  }),
  largest(resyncs, {
    ...{ bucket, prefix: key, since: at, until: at, status: 'none-or-failed', after: place },
    ...{ read: at, queued: at, damaged: at, startedAt: at, requestId: id },
  }),
  largest(runs, {
    ...{ bucketId: id, bucket, startedAt: at, fileId: id, files: at, rows: at, after: { key, version: id } },
    // The handler takes 3,000 characters of JSON, escapes included. The key of a manifest begins with a prefix among them.
    inventory: { Id: '€'.repeat(3_000) } as never,
    ended: { result: { startedAt: at, finishedAt: at, rows: at, files: at, manifest: '€'.repeat(341) } },
  }),
  largest(importRuns, {
    after: key,
    counts: { imported: at, replaced: at, changed: at, present: at, released: at, skipped: at, failed: at },
    startedAt: at,
  }),
  largest(rewrappings, {
    ...{ requestId: id, startedAt: at, at: { slot: at, after: bucket } },
    bucket: { name: bucket, id, phase: 'moved', after: place, leavings: 20 },
    // At most 1,200 characters as JSON, of three bytes each.
    left: [{ name: bucket, id, phase: 'moved', after: { key: '€'.repeat(800) }, leavings: 20 }],
    counts: { buckets: at, signingKeys: at, objects: at, uploads: at, current: at, failed: at },
    lastFailure: { bucket, key, reason: error },
  }),
  largest(scrubRuns, {
    ...{ firstAt: at, completeFrom: at, lastDamaged: at, listed: at, startedAt: at },
    position: {
      ...{ at: 'uploads', slot: at, bucket, after: upload },
      within: { ...read, place: upload, part: at },
    },
    seen: { versions: at, parts: at, chunks: at, bytes: at, damaged: at, unread: at },
  }),
  largest<DamagedContent>(
    { kind: 'scrub' },
    {
      ...{ kind: 'damaged', detail: error, cluster: bucket, extent: id, bucket, bucketId: id, key },
      ...{ version: id, chunks: at, foundAt: at, pass: at },
    },
  ),
])('of %s', (kind, state) => {
  expect(rowBytes({ kind, name: bucket, state, progress })).toBeLessThanOrEqual(commitLimits.rowBytes);
});

test('a state that is cut leaves room for the name and the progress of its task', () => {
  const state = firstThatFit(
    Array.from({ length: 10_000 }, () => '"€\u0001'.repeat(10)),
    stateBytesMax,
  );
  expect(state.length).toBeGreaterThan(100);
  expect(rowBytes({ kind: 'kind', name: bucket, state, progress })).toBeLessThanOrEqual(
    commitLimits.rowBytes,
  );
});

/** Cut by `firstThatFit`, or of numbers, ids, texts of operators and single names. */
const bounded = [
  ...['notify-rates', 'health-history', 'failing-targets-', 'lanes-', 'queue-hours', 'site'],
  ...['installation', 'copy-of-installation', 'audit-seal', 'audit-sealed', 'access-log', 'evacuation'],
  ...['quota-reconcile', 'usage-rollup', 'worker-controls', 'bucket-stats', 'reshard', 'inventory-files'],
  ...['inventory-results', 'backup', 'replication-uploads', 'usage-correction', 'fsck'],
];

test('each kind of task is in a list above', () => {
  const kinds = new Set<string>();
  for (const file of sourceFiles())
    for (const [, kind = ''] of readFileSync(file, 'utf8').matchAll(
      /TaskKind<[^;]{0,80}?\{ kind: ['`]([a-z-]+)/g,
    ))
      kinds.add(kind);
  expect(kinds.size).toBeGreaterThan(22);
  const tested = [lifecycleTasks, emptyings, resyncs, runs, importRuns, rewrappings].map(({ kind }) => kind);
  expect([...kinds].filter((kind) => !bounded.includes(kind) && !tested.includes(kind))).toEqual([]);
});
