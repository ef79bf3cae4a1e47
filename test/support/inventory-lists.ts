/** A bucket whose inventories a test configures, writes and reads back. */
import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { parquetReadObjects } from 'hyparquet';
import { expect } from 'vitest';
import type { Context } from '../../src/context.ts';
import { type Fields, silentTelemetry } from '../../src/ports/telemetry.ts';
import { writeInventories } from '../../src/workers/inventory.ts';
import { alice, type Backend, type GatewayWorld, type GatewayWorldOptions, openGateway } from './gateway.ts';
import { type VirtualClock, virtualClock } from './virtual-clock.ts';

const never = new AbortController().signal;

export const allFields = [
  'Size',
  'LastModifiedDate',
  'StorageClass',
  'ETag',
  'IsMultipartUploaded',
  'ReplicationStatus',
  'EncryptionStatus',
  'ObjectLockRetainUntilDate',
  'ObjectLockMode',
  'ObjectLockLegalHoldStatus',
  'ObjectLockEventHoldStatus',
  'ObjectLockEventHoldDuration',
  'IntelligentTieringAccessTier',
  'BucketKeyStatus',
  'ChecksumAlgorithm',
  'ObjectAccessControlList',
  'ObjectOwner',
  'LifecycleExpirationDate',
  'IntelligentTieringReferenceDate',
];

export interface Configured {
  readonly id?: string;
  readonly format?: 'CSV' | 'Parquet';
  readonly versions?: 'All' | 'Current';
  readonly fields?: readonly string[];
  readonly prefix?: string;
  readonly frequency?: 'Daily' | 'Weekly';
  readonly encryption?: string;
  readonly isEnabled?: boolean;
}

export const inventoryConfiguration = ({
  id = 'all',
  format = 'CSV',
  versions = 'Current',
  fields = ['Size'],
  prefix,
  frequency = 'Daily',
  encryption = '',
  isEnabled = true,
}: Configured): string =>
  `<InventoryConfiguration><Id>${id}</Id><IsEnabled>${isEnabled}</IsEnabled>${prefix === undefined ? '' : `<Filter><Prefix>${prefix}</Prefix></Filter>`}<Destination><S3BucketDestination><Bucket>arn:aws:s3:::lists</Bucket><Format>${format}</Format><Prefix>inv</Prefix>${encryption}</S3BucketDestination></Destination><Schedule><Frequency>${frequency}</Frequency></Schedule><IncludedObjectVersions>${versions}</IncludedObjectVersions><OptionalFields>${fields.map((field) => `<Field>${field}</Field>`).join('')}</OptionalFields></InventoryConfiguration>`;

const policy = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Principal: { Service: 's3.amazonaws.com' },
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::lists/*',
      Condition: {
        ArnLike: { 'aws:SourceArn': 'arn:aws:s3:::bucket' },
        StringEquals: { 'aws:SourceAccount': alice.owner, 's3:x-amz-acl': 'bucket-owner-full-control' },
      },
    },
  ],
});

export async function must(
  answer: Promise<{ readonly status: number; readonly text: string }>,
): Promise<void> {
  const { status, text } = await answer;
  if (status >= 300) throw new Error(text);
}

export interface Manifest {
  readonly sourceBucket: string;
  readonly destinationBucket: string;
  readonly version: string;
  readonly creationTimestamp: string;
  readonly fileFormat: string;
  readonly fileSchema: string;
  readonly files: readonly { readonly key: string; readonly size: number; readonly MD5checksum: string }[];
}

export interface Lists extends AsyncDisposable {
  readonly world: GatewayWorld;
  readonly clock: VirtualClock;
  readonly warned: Fields[];
  configure(configured: Configured): Promise<void>;
  /** Runs the worker until nothing is under way. */
  run(context?: Context): Promise<void>;
  /** The keys in the destination that end so. */
  keys(end?: string): Promise<string[]>;
  manifest(): Promise<Manifest>;
  /** The rows of all data files of a manifest, by the names of CSV. */
  rows(manifest: Manifest): Promise<Record<string, string>[]>;
}

export async function openLists(
  backend: Backend = 'memory',
  settings: Readonly<Record<string, string>> = {},
  more: Pick<GatewayWorldOptions, 'wrap'> = {},
): Promise<Lists> {
  const clock = virtualClock(Date.UTC(2026, 1, 5, 12, 34));
  const warned: Fields[] = [];
  const world = await openGateway({
    ...more,
    backend,
    clock,
    settings: { SVC_INVENTORY_INTERVAL: '1s', ...settings },
    telemetry: {
      ...silentTelemetry,
      log: (level, _, fields = {}) => void (level === 'WARN' && warned.push(fields)),
    },
  });
  const { client, context } = world;
  await must(client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'false' } }));
  await must(client.put('/lists'));
  await must(client.put('/lists?policy', { body: policy }));
  let generation = 0;
  const keys = async (end = ''): Promise<string[]> =>
    (await client.get('/lists?list-type=2')).all('Key').filter((key) => key.endsWith(end));
  return {
    world,
    clock,
    warned,
    configure: (configured) =>
      must(
        client.put(`/bucket?inventory&id=${configured.id ?? 'all'}`, {
          body: inventoryConfiguration(configured),
        }),
      ),
    async run(on = context) {
      generation += 1;
      const unit = writeInventories(on, generation);
      for (let rounds = 0; (await unit(never)) === 'busy'; rounds += 1)
        if (rounds > 100) throw new Error('the inventory does not come to an end');
    },
    keys,
    async manifest() {
      const key = (await keys('manifest.json')).at(-1);
      return JSON.parse((await client.get(`/lists/${key}`)).text) as Manifest;
    },
    async rows({ files, fileFormat, fileSchema }) {
      const rows: Record<string, string>[] = [];
      for (const { key, size, MD5checksum } of files) {
        const { bytes } = await client.get(`/lists/${key}`);
        expect(bytes).toHaveLength(size);
        expect(createHash('md5').update(bytes).digest('hex')).toBe(MD5checksum);
        rows.push(...(fileFormat === 'CSV' ? readCsv(bytes, fileSchema) : await readParquet(bytes)));
      }
      return rows;
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

function readCsv(bytes: Uint8Array, schema: string): Record<string, string>[] {
  const names = schema.split(', ');
  const lines = gunzipSync(bytes).toString().split('\n').slice(0, -1);
  return lines.map((line) => {
    const values = [...line.matchAll(/"((?:[^"]|"")*)"(?:,|$)/g)].map(([, value = '']) => value);
    expect(values).toHaveLength(names.length);
    return Object.fromEntries(
      names.map((name, n) => [
        name,
        name === 'Key' ? decodeURIComponent(values[n] ?? '') : (values[n] ?? ''),
      ]),
    );
  });
}

/** The rows in the words of CSV, so that both formats are compared. */
async function readParquet(bytes: Uint8Array): Promise<Record<string, string>[]> {
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  const rows = await parquetReadObjects({ file });
  const words: Readonly<Record<string, string>> = { e_tag: 'ETag' };
  const shown = (value: unknown): string =>
    value === null || value === undefined ? '' : value instanceof Date ? value.toISOString() : String(value);
  const camel = (name: string): string =>
    words[name] ?? name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return rows.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [camel(name), shown(value)])),
  );
}
