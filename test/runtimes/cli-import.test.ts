/** `sluice import` resumes from its position after a kill. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startUpstreamServer } from '../support/engines/upstream.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { startServer } from '../support/server.ts';

const root = join(import.meta.dirname, '../..');
const objects = 450;
const keyAt = (i: number): string => `key-${String(i).padStart(3, '0')}`;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-import-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

interface Line {
  readonly progress?: { readonly after: string; readonly counts: { readonly imported: number } };
  readonly summary?: Readonly<Record<string, number>>;
}

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
  readonly lines: readonly Line[];
}

/** @param heard gets each line of the output and may kill the command */
function runImport(
  { env, flags }: { readonly env: Readonly<Record<string, string>>; readonly flags: readonly string[] },
  heard: (line: Line, child: ChildProcess) => void = () => {},
): Promise<Ended> {
  const args = [join(root, 'src/runtime/cli.ts'), 'import', '--data-dir', directory, '--json', ...flags];
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: Line[] = [];
  let stderr = '';
  child.stderr.on('data', (piece) => {
    stderr += piece;
  });
  createInterface(child.stdout).on('line', (text) => {
    const line = JSON.parse(text) as Line;
    lines.push(line);
    heard(line, child);
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stderr, lines }));
  });
}

test('an import that is killed resumes at its position, beside a running gateway', async () => {
  await using upstream = await startUpstreamServer();
  const env = {
    ...upstream.environment,
    SVC_DATA_BACKEND: 'upstream-store',
    SVC_UPSTREAMS: upstream.bucket,
    SVC_FSYNC: 'never',
  };
  const direct = loadClient(
    upstream.environment['SVC_UPSTREAM_ENDPOINT'] ?? '',
    upstreamCredentials(upstream),
    4,
  );
  for (let i = 0; i < objects; i += 1)
    await direct.expect({
      method: 'PUT',
      path: pathOf(upstream.bucket, keyAt(i)),
      body: Buffer.from(keyAt(i)),
    });
  direct.close();
  const server = await startServer({ dataDir: directory, env });
  const client = loadClient(server.url, server.credentials.root, 2);
  try {
    const missing = await runImport({ env, flags: ['--bucket=bucket'] });
    expect([missing.code, missing.stderr]).toEqual([1, 'sluice: there is no bucket bucket\n']);
    await client.expect({ method: 'PUT', path: pathOf('bucket') });
    await client.expect({
      method: 'PUT',
      path: pathOf('bucket', keyAt(7)),
      body: Buffer.from('of the gateway'),
    });

    const flags = ['--bucket=bucket'];
    const killed = await runImport({ env, flags: [...flags, '--rate=300'] }, ({ progress }, child) => {
      if (progress?.after === keyAt(199)) child.kill('SIGKILL');
    });
    expect(killed.code).toBeNull();
    expect(killed.lines.at(-1)?.summary).toBeUndefined();

    const resumed = await runImport({ env, flags });
    expect(resumed.stderr).toBe('');
    expect(resumed.code).toBe(0);
    // The first batch is before the saved position, and no object is counted twice.
    expect(resumed.lines[0]?.progress?.after).not.toBe(keyAt(99));
    const { summary } = resumed.lines.at(-1) ?? {};
    expect((summary?.['imported'] ?? 0) + (summary?.['present'] ?? 0)).toBe(objects);
    const again = await runImport({ env, flags });
    expect(again.lines.at(-1)?.summary).toMatchObject({ imported: 0, present: objects });

    for (let i = 0; i < objects; i += 1) {
      const expected = i === 7 ? 'of the gateway' : keyAt(i);
      expect((await client.expect({ path: pathOf('bucket', keyAt(i)) })).text).toBe(expected);
    }
  } finally {
    client.close();
    await server.stop();
  }
});

const upstreamCredentials = ({
  environment,
}: {
  readonly environment: Readonly<Record<string, string>>;
}) => ({
  accessKey: environment['SVC_UPSTREAM_ACCESS_KEY'] ?? '',
  secretKey: environment['SVC_UPSTREAM_SECRET_KEY'] ?? '',
});
