/** The server flushes before it answers. A kill -9 cannot show this, so the test traces the system calls of the real server. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { completeSpec, createUpload, loadClient, pathOf, uploadPart } from '../support/load-client.ts';
import { startServer } from '../support/server.ts';
import { type Exchange, exchangesOf, tracing } from './syscalls.ts';

const hasStrace = spawnSync('strace', ['-V']).status === 0;
/** On CI strace is installed and the test must run; elsewhere strace may be missing. */
const mustRun = process.env['CI'] !== undefined && process.env['CI'] !== 'false';

/** Single requests over one connection, each answered before the next is sent. */
async function traced(fsync: 'always' | 'never'): Promise<readonly Exchange[]> {
  const own = mkdtempSync(join(tmpdir(), 'sluice-flush-'));
  const file = join(own, 'trace');
  const dataDir = join(own, 'data');
  const server = await startServer({
    dataDir,
    runtime: tracing(file),
    // No background work, and no file calls that strace cannot see. The reserve is written beside the first requests, and flushed.
    env: { SVC_FSYNC: fsync, SVC_WORKERS: '', SVC_DISK_RESERVE: '0', UV_USE_IO_URING: '0' },
  });
  const client = loadClient(server.url, server.credentials.root, 1);
  const bytes = (size: number): Uint8Array => new Uint8Array(size).fill(7);
  const seen = (): readonly Exchange[] => exchangesOf(readFileSync(file, 'utf8'), dataDir);
  try {
    await client.expect({ method: 'PUT', path: pathOf('bucket') });
    for (const [key, size] of [
      ['small', 4096],
      ['large', 1024 * 1024],
      ['several', 9 * 1024 * 1024],
      ['empty', 0],
    ] as const) {
      await client.expect({ method: 'PUT', path: pathOf('bucket', key), body: bytes(size) });
    }
    const to = { bucket: 'bucket', key: 'parts', uploadId: await createUpload(client, 'bucket', 'parts') };
    const etags = [
      await uploadPart(client, { ...to, part: 1 }, bytes(5 * 1024 * 1024)),
      await uploadPart(client, { ...to, part: 2 }, bytes(17)),
    ];
    await client.expect(completeSpec(to, etags));
    await client.expect({
      method: 'PUT',
      path: pathOf('bucket', 'copy'),
      headers: { 'x-amz-copy-source': '/bucket/small' },
    });
    await client.expect({ method: 'DELETE', path: pathOf('bucket', 'small') });
    // The client has the answer before strace has recorded it.
    await vi.waitFor(() => expect(seen().length).toBeGreaterThanOrEqual(expected.length), {
      timeout: 120_000,
      interval: 200,
    });
  } finally {
    client.close();
    await server.kill9();
  }
  const exchanges = seen();
  rmSync(own, { recursive: true, force: true });
  return exchanges;
}

const metadata = /^metadata\/data\.mdb$/;
const segment = /^chunks\/.*\.seg$/;
const largeFile = /^chunks\/.*\/temporary\/[^/]+$/;
const largeFolder = /^chunks\/.*\/large\/[^/]+$/;

/** The files that must be flushed during a request, in addition to everything that it changed. */
const expected: readonly (readonly [request: RegExp, flushes: readonly RegExp[]])[] = [
  [/^PUT \/bucket$/, [metadata]],
  [/^PUT \/bucket\/small$/, [segment, metadata]],
  [/^PUT \/bucket\/large$/, [largeFile, largeFolder, metadata]],
  [/^PUT \/bucket\/several$/, [largeFile, largeFolder, metadata]],
  [/^PUT \/bucket\/empty$/, [metadata]],
  [/^POST \/bucket\/parts\?uploads/, [metadata]],
  [/^PUT \/bucket\/parts\?partNumber=1/, [largeFile, largeFolder, metadata]],
  [/^PUT \/bucket\/parts\?partNumber=2/, [segment, metadata]],
  [/^POST \/bucket\/parts\?uploadId/, [metadata]],
  [/^PUT \/bucket\/copy$/, [segment, metadata]],
  [/^DELETE \/bucket\/small$/, [metadata]],
];

describe.skipIf(!hasStrace && !mustRun)('the system calls', () => {
  test('flush the changes of a request before the first byte of its answer', async () => {
    const exchanges = await traced('always');
    for (const [request, flushes] of expected) {
      const exchange = exchanges.find((each) => request.test(each.request));
      expect(exchange?.status, String(request)).toBeLessThan(300);
      expect(exchange?.unflushed, String(request)).toEqual([]);
      for (const flush of flushes) {
        expect(
          exchange?.flushed.some((path) => flush.test(path)),
          `${request} flushes ${flush}, flushed ${exchange?.flushed.join()}`,
        ).toBe(true);
      }
    }
    expect(exchanges).toHaveLength(expected.length);
  });

  test('flush nothing under SVC_FSYNC=never', async () => {
    const exchanges = await traced('never');
    expect(exchanges).toHaveLength(expected.length);
    expect(exchanges.flatMap(({ flushed }) => flushed)).toEqual([]);
    // Positive control: the trace reader detects changes that are not flushed.
    expect(exchanges.at(-1)?.unflushed).toContain('metadata/data.mdb');
  });
});
