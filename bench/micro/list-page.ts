/** A page of 1,000 of 1,000,000 keys from `embedded`, through the gateway; the goal is less than 10 ms of CPU. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGateway } from '../../src/admin-gateway.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { Context } from '../../src/context.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { liveHeadAt, objectsAt } from '../../src/metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../src/metadata/tables.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { incomingOf } from '../lib/incoming.ts';
import { microsOf, type Piece } from '../lib/micro.ts';
import { benchCredential, Signer } from '../lib/sign.ts';

const keys = 1_000_000;
const commitsAtOnce = 512;
const keyOf = (number: number): string => `folder-${number % 100}/object-${String(number).padStart(8, '0')}`;

function rowOf(bucket: BucketRow, number: number): ObjectRow {
  return {
    ...liveHeadAt(keyOf(number)),
    bucketId: bucket.id,
    version: `0${number.toString(32).padStart(20, '0')}`,
    isNull: true,
    marker: false,
    modified: 1_764_000_000_000 + number,
    size: 4096,
    etag: number.toString(16).padStart(32, '0'),
    storageClass: 'STANDARD',
    manifest: {
      extents: [{ cluster: 'default', id: `op.${number.toString(32)}`, size: 4096, at: 'seg.1.2' }],
    },
    headers: { system: { 'content-type': 'application/octet-stream' } },
    owner: 'bench',
    requestId: number.toString(16).padStart(32, '0'),
  };
}

/** Writes the rows of so many PUTs directly into the store. */
async function seed({ metadata }: Context, bucket: BucketRow): Promise<void> {
  const at = objectsAt(bucket);
  for (let first = 0; first < keys; first += commitsAtOnce) {
    const count = Math.min(commitsAtOnce, keys - first);
    const commits = Array.from({ length: count }, (_, i) =>
      metadata.commit(at, [{ put: rowOf(bucket, first + i), expect: 'absent' }]),
    );
    for (const outcome of await Promise.all(commits)) if (!outcome.applied) throw new Error(outcome.because);
  }
}

export async function listPage(): Promise<Piece[]> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-micro-'));
  const config = configWith({ SVC_DATA_DIR: directory, SVC_FSYNC: 'never' });
  const credentials = [benchCredential];
  const { context, close } = await compose(config, { credentials });
  try {
    const gateway = createGateway(context);
    const signer = new Signer('localhost:9000');
    await gateway.handle(incomingOf(signer.header({ method: 'PUT', path: '/bench' })));
    const bucket = (await findBucket(context.metadata, 'bench'))?.row as BucketRow;
    await seed(context, bucket);
    let turn = 0;
    const page = async (): Promise<void> => {
      const after = encodeURIComponent(keyOf((turn++ * 7919) % keys));
      const query = `list-type=2&max-keys=1000&start-after=${after}`;
      const { status, body } = await gateway.handle(
        incomingOf(signer.header({ method: 'GET', path: '/bench', query })),
      );
      if (status !== 200 || !String(body).includes('<KeyCount>1000<'))
        throw new Error(`${status} ${String(body)}`);
    };
    const cursor = async (): Promise<void> => {
      await context.metadata
        .scan(objectsAt(bucket), { from: liveHeadAt(keyOf((turn++ * 7919) % keys)) })
        .next(1000);
    };
    const floor = { name: 'the cursor alone', micros: await microsOf(cursor, { batch: 1 }) };
    const micros = await microsOf(page, { batch: 1, ms: 1000 });
    return [{ name: `list, 1,000 of ${keys.toLocaleString('en-US')} keys`, micros, floor }];
  } finally {
    await close();
    rmSync(directory, { recursive: true, force: true });
  }
}
