/** `fsck --deep` compares contents with the ETags, checksums and sizes in their rows. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { checksumFacts } from '../../src/domain/content/digests.ts';
import { type FsckFinding, runFsck } from '../../src/domain/fsck/fsck.ts';
import { findLiveHead, manifestRows, objectsAt } from '../../src/metadata/objects/objects.ts';
import { uploadAt } from '../../src/metadata/objects/uploads.ts';
import type { ObjectRow, UploadPart } from '../../src/metadata/tables.ts';
import type { SideChange } from '../../src/ports/metadata-store.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { bytesOf, MiB } from '../support/gateway-bodies.ts';

async function fsck({ context }: GatewayWorld, deep: boolean): Promise<readonly FsckFinding[]> {
  const findings: FsckFinding[] = [];
  const mode = { fix: true, drop: true, deep };
  await runFsck(context, (finding) => void findings.push(finding), { mode });
  return findings;
}

async function change(
  { context }: GatewayWorld,
  key: string,
  changed: (row: ObjectRow) => Partial<ObjectRow>,
): Promise<void> {
  const bucket = await openBucket(context, 'bucket');
  const head = await findLiveHead(context.metadata, bucket, key);
  if (head === undefined) throw new Error(`no ${key}`);
  const put = { ...head.row, ...changed(head.row) };
  const outcome = await context.metadata.commit(objectsAt(bucket), [{ put, expect: head.revision }]);
  expect(outcome.applied).toBe(true);
}

const sha256 = (body: Uint8Array): string => createHash('sha256').update(body).digest('base64');
const parts = [bytesOf(5 * MiB, 1), bytesOf(100, 2)];

async function upload(
  { client }: GatewayWorld,
  key: string,
  algorithm: 'SHA256' | 'CRC32C',
  { completes = true } = {},
): Promise<string> {
  const type = algorithm === 'SHA256' ? 'COMPOSITE' : 'FULL_OBJECT';
  const headers = { '*-checksum-algorithm': algorithm, '*-checksum-type': type };
  const id = (await client.post(`/bucket/${key}?uploads`, { headers })).one('UploadId') ?? '';
  const listed: string[] = [];
  for (const [i, body] of parts.entries()) {
    const value = Buffer.from(nodeHasher().once(checksumFacts[algorithm].hash, body)).toString('base64');
    const put = await client.put(`/bucket/${key}?uploadId=${id}&partNumber=${i + 1}`, {
      body,
      headers: { [`*-checksum-${algorithm.toLowerCase()}`]: value },
    });
    expect(put.status, put.text).toBe(200);
    const checksum = `<Checksum${algorithm}>${value}</Checksum${algorithm}>`;
    listed.push(
      `<Part><PartNumber>${i + 1}</PartNumber><ETag>${put.header('etag')}</ETag>${checksum}</Part>`,
    );
  }
  if (!completes) return id;
  const body = `<CompleteMultipartUpload>${listed.join('')}</CompleteMultipartUpload>`;
  const done = await client.post(`/bucket/${key}?uploadId=${id}`, { body });
  expect(done.status, done.text).toBe(200);
  return id;
}

/** Moves the list of parts to separate rows, as for an object with many parts. */
async function segment(world: GatewayWorld, key: string): Promise<void> {
  let rows: SideChange[] = [];
  const manifestId = 'f'.repeat(32);
  await change(world, key, ({ manifest }) => {
    if (!('parts' in manifest)) throw new Error('no parts');
    rows = manifestRows(manifestId, manifest.parts);
    return { manifest: { manifestId, partCount: manifest.parts.length, offsets: [0] } };
  });
  await world.context.metadata.apply(rows);
}

const wrongEtag = (row: ObjectRow) => ({ etag: row.etag.replace(/^./, (c) => (c === '0' ? '1' : '0')) });
const wrongSum = ({ checksum }: ObjectRow) => {
  if (checksum === undefined) throw new Error('no checksum');
  return { checksum: { ...checksum, value: checksum.value.replace(/^./, (c) => (c === 'A' ? 'B' : 'A')) } };
};
const wrongPart = ({ manifest }: ObjectRow) => {
  if (!('parts' in manifest)) throw new Error('no parts');
  return {
    manifest: {
      parts: manifest.parts.map((part) => ({ ...part, checksum: sha256(parts[0] as Uint8Array) })),
    },
  };
};

test('--deep compares contents with the ETag, the checksums and the size of their rows', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/single', {
    body: 'content',
    headers: { '*-checksum-sha256': sha256(Buffer.from('content')) },
  });
  await upload(world, 'composite', 'SHA256');
  await upload(world, 'whole', 'CRC32C');
  await upload(world, 'segmented', 'SHA256');
  await segment(world, 'segmented');
  expect(await fsck(world, true)).toEqual([]);
  const damages: readonly [string, (row: ObjectRow) => Partial<ObjectRow>, RegExp][] = [
    ['single', wrongEtag, /ETag/],
    ['composite', wrongEtag, /ETag/],
    ['whole', wrongEtag, /ETag/],
    ['segmented', wrongEtag, /ETag/],
    ['segmented', wrongSum, /SHA256/],
    ['single', wrongSum, /SHA256/],
    ['composite', wrongSum, /SHA256/],
    ['whole', wrongSum, /CRC32C/],
    ['composite', wrongPart, /part 2 .*SHA256/],
  ];
  for (const [key, changed, says] of damages) {
    let former: ObjectRow | undefined;
    await change(world, key, (row) => {
      former = row;
      return changed(row);
    });
    expect(await fsck(world, false), `${key} ${says}`).toEqual([]);
    const findings = await fsck(world, true);
    expect(
      findings.map(({ kind, key: at }) => [kind, at]),
      `${key} ${says}`,
    ).toEqual([['damaged', key]]);
    expect(findings[0]?.detail).toMatch(says);
    await change(world, key, () => former ?? {});
  }
  expect(await fsck(world, true)).toEqual([]);
});

test('a size that is not the sum of its bytes is found without --deep', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/single', { body: 'content' });
  await world.client.put('/bucket/sealed', {
    body: 'content',
    headers: { '*-server-side-encryption': 'AES256' },
  });
  await upload(world, 'composite', 'SHA256');
  expect(await fsck(world, false)).toEqual([]);
  for (const key of ['single', 'sealed', 'composite'])
    await change(world, key, ({ size }) => ({ size: size + 1 }));
  const findings = (await fsck(world, false)).filter(({ kind }) => kind !== 'usage');
  expect(findings.map(({ kind, key, left }) => [kind, key, left])).toEqual(
    ['composite', 'sealed', 'single'].map((key) => ['manifest', key, 'its bytes cannot be made again']),
  );
});

test('the parts of an open upload are compared with their ETags and checksums', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const id = await upload(world, 'open', 'SHA256', { completes: false });
  expect(await fsck(world, true)).toEqual([]);
  const { metadata } = world.context;
  const damages: readonly ((stored: UploadPart) => UploadPart)[] = [
    (stored) => ({ ...stored, etag: '0'.repeat(32) }),
    (stored) => ({ ...stored, checksum: { algorithm: 'SHA256', value: sha256(new Uint8Array(1)) } }),
  ];
  for (const [i, damage] of damages.entries()) {
    const found = await metadata.get(uploadAt(id), { part: i + 1 });
    if (found?.row.stored === undefined) throw new Error('no part');
    const put = { ...found.row, stored: damage(found.row.stored) };
    await metadata.commit(uploadAt(id), [{ put, expect: found.revision }]);
  }
  expect(await fsck(world, false)).toEqual([]);
  expect((await fsck(world, true)).map(({ kind, uploadId, part }) => [kind, uploadId, part])).toEqual([
    ['damaged', id, 1],
    ['damaged', id, 2],
  ]);
});
