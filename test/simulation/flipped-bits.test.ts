/**
 * Bits flip anywhere in the files of a data directory. No object, header or listing is ever answered wrongly with 200,
 * and every object that does not read exactly right is named by `fsck --deep`, or its row is among those that fsck
 * names as damaged metadata.
 * `SEED=… ROUNDS=…` runs other and more rounds: 100 rounds from seed 71000000 found no wrong answer (2026-11-23).
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { FsckFinding } from '../../src/domain/fsck/fsck.ts';
import { drawFrom, filesUnder, flipBits } from '../support/flip-bits.ts';
import { openGateway } from '../support/gateway.ts';

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const rounds = Number(process.env['ROUNDS'] ?? 4);
const base = mkdtempSync(join(tmpdir(), 'sluice-flips-'));
const keys = Array.from({ length: 60 }, (_, index) => `object-${index + 10}`);
const bodyOf = (key: string): string => key.repeat(1 + ((Number(key.slice(7)) * 37) % 900));
const etagOf = (key: string): string => `"${createHash('md5').update(bodyOf(key)).digest('hex')}"`;

beforeAll(async () => {
  await using world = await openGateway({ settings: { SVC_DATA_DIR: join(base, 'sound') } });
  await world.client.put('/bucket');
  for (const key of keys) {
    const headers = { 'x-amz-meta-mark': `mark-of-${key}` };
    const answer = await world.client.put(`/bucket/${key}`, { body: bodyOf(key), headers });
    expect(answer.status).toBe(200);
  }
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

interface Told {
  readonly key?: string;
  readonly status?: number;
  readonly code?: string;
  readonly etag?: string;
  readonly mark?: string;
  readonly body?: string;
  readonly listed?: { readonly status: number; readonly keys: string[]; readonly etags: string[] };
  readonly finding?: FsckFinding;
  readonly isDone?: true;
}

function readDamaged(directory: string): { readonly told: readonly Told[]; readonly stderr: string } {
  const script = join(import.meta.dirname, 'flipped-reader.ts');
  const { stdout, stderr } = spawnSync(process.execPath, [script, directory, ...keys], { encoding: 'utf8' });
  const lines = stdout.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'));
  return { told: lines.map((line) => JSON.parse(line) as Told), stderr };
}

it.each(Array.from({ length: rounds }, (_, round) => seed + round))(
  'objects with flipped bits in their files read exactly right or are named by fsck --deep (seed %i)',
  (roundSeed) => {
    const draw = drawFrom(roundSeed);
    const directory = join(base, String(roundSeed));
    cpSync(join(base, 'sound'), directory, { recursive: true });
    const damaged = ['metadata/data.mdb', 'chunks/'];
    for (const path of filesUnder(directory))
      if (damaged.some((part) => path.includes(part))) flipBits(path, { draw, count: 3 });
    const { told, stderr } = readDamaged(directory);
    const findings = told.flatMap(({ finding }) => finding ?? []);
    // A damaged page or bucket row hides more than one key.
    const isNamed = (key: string, code: string | undefined): boolean =>
      findings.some((finding) => finding.key === key) ||
      ((code === 'MetadataDamaged' || code === 'NoSuchKey') &&
        findings.some(({ kind }) => kind === 'metadata'));
    // lmdb may end the process or refuse the file, which is no wrong answer; the answers before that count.
    const isWhole = told.some(({ isDone }) => isDone);
    if (!isWhole) expect(stderr).not.toContain('AssertionError');
    for (const { key, status, code, etag, mark, body } of told) {
      if (key === undefined) continue;
      const right = { status: 200, etag: etagOf(key), mark: `mark-of-${key}`, body: bodyOf(key) };
      if (status === 200) expect({ status, etag, mark, body }).toEqual(right);
      else if (isWhole) expect([key, status, code, isNamed(key, code)]).toEqual([key, status, code, true]);
    }
    const listed = told.find((each) => each.listed !== undefined)?.listed;
    if (listed?.status === 200) {
      expect(listed.keys).toEqual(keys);
      expect(listed.etags.map((etag) => etag.replaceAll('&quot;', '"'))).toEqual(keys.map(etagOf));
    }
    rmSync(directory, { recursive: true, force: true });
  },
);
