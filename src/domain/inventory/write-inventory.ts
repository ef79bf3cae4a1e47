/**
 * Writes an inventory step by step: each step is one data file, the last one the symlink, the manifest and its checksum, in this order.
 * A step that was interrupted is repeated under the same keys. The rows are read while the run goes on, so a version that changes
 * after the instant that the manifest states is listed as it was when it was read.
 */

import { Refusal } from '../../base/errors.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { assertLeads, type Task, type Term } from '../../metadata/background/tasks.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import { noLabels } from '../../ports/telemetry.ts';
import { readOwnership } from '../access/object-ownership.ts';
import { fenceWriters } from '../common/buckets.ts';
import { drawRequestId } from '../common/ids.ts';
import { readDocument } from '../configurations/documents.ts';
import { readRules } from '../configurations/families.ts';
import { bucketInventories, findInventory, type Inventory } from '../configurations/inventory.ts';
import type { RequestedEncryption } from '../content/requested-encryption.ts';
import {
  isKeyTooLong,
  type MayWrite,
  type ServiceWriteCtx,
  services,
  writeAsService,
} from '../deliveries/service-write.ts';
import {
  type InventoryColumn,
  type InventoryFacts,
  type InventoryPlace,
  inventoryRows,
  listColumns,
  toPlace,
  type Value,
} from './rows.ts';
import {
  type DataFile,
  endRun,
  filesOfRun,
  forgetRun,
  type InventoryRun,
  isManifestWritten,
  readFileRecord,
  runs,
  saveRows,
  saveRun,
} from './runs.ts';

export interface InventoryCtx extends ServiceWriteCtx, Pick<Context, 'telemetry'> {
  readonly mayWrite: MayWrite;
  readonly config: ServiceWriteCtx['config'] & Pick<Config, 'SVC_INVENTORY_FILE_ROWS'>;
}

interface Step {
  readonly term: Term;
  /** The ids of destinations in which no commit of an earlier leader applies any more. */
  readonly fenced: Set<string>;
  /** Called after each page of rows. */
  pause(rows: number): Promise<void>;
  readonly signal: AbortSignal;
}

/** One step of a run. */
export async function stepInventory(ctx: InventoryCtx, task: Task<InventoryRun>, step: Step): Promise<void> {
  const run = task.state;
  if (run.ended !== undefined) return forgetRun(ctx.metadata, task, step.term);
  try {
    const source = (await findBucket(ctx.metadata, run.bucket))?.row;
    // Where the bucket or the configuration was deleted or changed, the next look begins what is due then.
    if (
      source === undefined ||
      source.id !== run.bucketId ||
      !(await isConfigured(ctx, source, run)) ||
      (run.files === 0 && (await isManifestWritten(ctx.metadata, run)))
    )
      return await endRun(ctx.metadata, task, { result: undefined, term: step.term });
    const found = await openDestination(ctx, source, run);
    if (typeof found === 'string') return await giveUp(ctx, task, { ...step, why: found });
    const bucket = step.fenced.has(found.id) ? found : await fenceWriters(ctx, found);
    step.fenced.add(found.id);
    if (run.isListed) await writeManifest(ctx, task, { ...step, bucket });
    else await writeDataFile(ctx, task, { ...step, bucket, source });
  } catch (cause) {
    if (cause instanceof Refusal && !step.signal.aborted)
      return giveUp(ctx, task, { ...step, why: reasons[cause.code] ?? cause.code, cause });
    // A list without the rows that cannot be read would look complete.
    if (cause instanceof MetadataDamaged) return giveUp(ctx, task, { ...step, why: 'damaged', cause });
    throw cause;
  }
}

async function isConfigured(
  ctx: InventoryCtx,
  source: BucketRow,
  { inventory }: InventoryRun,
): Promise<boolean> {
  const now = findInventory(await readDocument(ctx, source, bucketInventories), inventory.Id);
  return now !== undefined && JSON.stringify(now) === JSON.stringify(inventory);
}

/** The reasons that a write states where `openDestination` found none. */
const reasons: Readonly<Record<string, string>> = {
  QuotaExceeded: 'quota',
  NoSuchBucket: 'no-bucket',
  AccessDenied: 'denied',
};

const hints: Readonly<Record<string, string>> = {
  'no-bucket': 'create the destination bucket, or change the configuration',
  'other-owner': 'the destination must belong to the account of the bucket: change the configuration',
  'other-region': 'the destination must be in the region of the bucket: change the configuration',
  'key-too-long': 'choose a shorter Prefix in the configuration',
  quota: 'make room in the destination bucket, or raise its quota or that of its account',
  damaged: 'metadata is damaged: see docs/recovery.md',
};
const deniedHint =
  'the policy of the destination must allow s3:PutObject to the service s3.amazonaws.com; a KMS key must name its account';

async function giveUp(
  { metadata, telemetry }: InventoryCtx,
  task: Task<InventoryRun>,
  { term, why, cause }: Step & { readonly why: string; readonly cause?: unknown },
): Promise<void> {
  const { bucket, inventory, startedAt, rows, files } = task.state;
  telemetry.count('svc_inventory_runs_total', { outcome: 'failed' });
  telemetry.log('WARN', 'an inventory cannot be written', {
    bucket,
    id: inventory.Id,
    destination: inventory.Destination.S3BucketDestination.Bucket,
    why,
    hint: `${hints[why] ?? deniedHint}; it is tried again within an hour`,
    ...(cause === undefined ? {} : { cause }),
  });
  const result = { startedAt, finishedAt: await metadata.now(), rows, files, failure: why };
  await endRun(metadata, task, { result, term });
}

interface Writing extends Step {
  /** The destination. */
  readonly bucket: BucketRow;
}

/** The rows of one data file: counts them, and keeps the place of the last one. */
class Listed {
  rows = 0;
  last: InventoryPlace | undefined;
  readonly #pages: AsyncIterator<readonly ObjectRow[]>;
  readonly #inventory: Inventory;
  #first: readonly ObjectRow[] | undefined;

  constructor(pages: AsyncIterable<readonly ObjectRow[]>, inventory: Inventory) {
    this.#pages = pages[Symbol.asyncIterator]();
    this.#inventory = inventory;
  }

  async isEmpty(): Promise<boolean> {
    this.#first ??= await this.#next();
    return this.#first.length === 0;
  }

  async *pass(): AsyncGenerator<readonly ObjectRow[]> {
    let page = this.#first ?? (await this.#next());
    for (; page.length > 0; page = await this.#next()) {
      yield page;
      this.rows += page.length;
      const last = page.at(-1);
      if (last !== undefined) this.last = toPlace(this.#inventory, last);
    }
  }

  async #next(): Promise<readonly ObjectRow[]> {
    const step = await this.#pages.next();
    return step.done === true ? [] : step.value;
  }
}

async function writeDataFile(
  ctx: InventoryCtx,
  task: Task<InventoryRun>,
  { bucket, source, term, pause, signal }: Writing & { readonly source: BucketRow },
): Promise<void> {
  const run = task.state;
  const { inventory } = run;
  let saved = task;
  const pauseAndSave = async (rows: number): Promise<void> => {
    await pause(rows);
    saved = await saveRows(ctx.metadata, saved, { rows: listed.rows, term });
  };
  const max = ctx.config.SVC_INVENTORY_FILE_ROWS;
  const listed = new Listed(
    inventoryRows(ctx, source, { inventory, after: run.after, max, pause: pauseAndSave, signal }),
    inventory,
  );
  // The former file was full and the last one. An empty bucket has one file without rows.
  if (run.files > 0 && (await listed.isEmpty()))
    return saveRun(ctx.metadata, saved, { run: { ...run, isListed: true }, term });
  const pages = listed.pass();
  const columns = listColumns(inventory);
  const facts = await readFacts(ctx, source);
  const { Format } = inventory.Destination.S3BucketDestination;
  const encoded =
    Format === 'Parquet' ? parquet(pages, { columns, facts }) : csvGzip(pages, { columns, facts });
  const key = inventoryKeys(run).dataFile(run.files);
  const former = await readFileRecord(ctx.metadata, run);
  const { size, md5 } = await write(ctx, run, {
    bucket,
    key,
    type: 'application/octet-stream',
    content: encoded,
    term,
    signal,
  });
  const { rows, last } = listed;
  // A file that is not full is the last one.
  const isListed = rows < max;
  const next: InventoryRun = {
    ...run,
    files: run.files + 1,
    rows: run.rows + rows,
    ...(last === undefined ? {} : { after: last }),
    ...(isListed ? { isListed } : {}),
  };
  await saveRun(ctx.metadata, saved, { run: next, written: { file: { key, size, md5 }, former }, term });
}

async function readFacts(ctx: InventoryCtx, bucket: BucketRow): Promise<InventoryFacts> {
  return {
    bucket,
    lifecycle: await readRules(ctx, bucket),
    isOwnerEnforced: (await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced',
  };
}

interface NewFile extends Pick<Step, 'term' | 'signal'> {
  readonly bucket: BucketRow;
  readonly key: string;
  readonly type: string;
  readonly content: AsyncIterable<Uint8Array>;
}

/** @returns the size and the MD5 of the content */
async function write(
  ctx: InventoryCtx,
  { inventory }: InventoryRun,
  { bucket, key, type, content, term, signal }: NewFile,
): Promise<Omit<DataFile, 'key'>> {
  const hash = ctx.hasher.create('md5');
  let size = 0;
  async function* source(): AsyncGenerator<Uint8Array> {
    for await (const bytes of content) {
      hash.update(bytes);
      size += bytes.length;
      yield bytes;
    }
  }
  await writeAsService(
    ctx,
    {
      service: services.inventory,
      bucket,
      key,
      headers: { system: { 'content-type': type } },
      requested: requestedEncryption(inventory),
      isNew: false,
      async then() {
        // A former leader that was paused must not replace a file that a manifest describes by now.
        await assertLeads(ctx.metadata, runs, term);
        return [];
      },
      requestId: drawRequestId(ctx.random),
      signal,
    },
    { source: source(), length: undefined },
  );
  return { size, md5: toHex(hash.digest()) };
}

async function writeManifest(
  ctx: InventoryCtx,
  task: Task<InventoryRun>,
  { bucket, term, signal }: Writing,
): Promise<void> {
  const { metadata, telemetry } = ctx;
  const run = task.state;
  const { manifest, checksum, symlink } = inventoryKeys(run);
  const put = (key: string, type: string, content: AsyncIterable<Uint8Array>) =>
    write(ctx, run, { bucket, key, type, content, term, signal });
  await put(symlink, 'text/plain', encoded(symlinkText(ctx, run, { bucket, term })));
  const { md5 } = await put(manifest, 'application/json', encoded(manifestText(ctx, run, term)));
  await put(checksum, 'text/plain', encoded([md5]));
  const { startedAt, rows, files } = run;
  const result = { startedAt, finishedAt: await metadata.now(), rows, files, manifest };
  await endRun(metadata, task, { result, term });
  telemetry.count('svc_inventory_runs_total', { outcome: 'written' });
  telemetry.count('svc_inventory_rows_total', noLabels, rows);
  telemetry.log('INFO', 'an inventory was written', {
    bucket: run.bucket,
    id: run.inventory.Id,
    rows,
    manifest,
  });
}

async function* symlinkText(
  { metadata }: InventoryCtx,
  run: InventoryRun,
  { bucket, term }: { readonly bucket: BucketRow; readonly term: Term },
): AsyncGenerator<string> {
  for await (const { key } of filesOfRun(metadata, run, term)) yield `s3://${bucket.name}/${key}\n`;
}

async function* manifestText(
  { metadata }: InventoryCtx,
  run: InventoryRun,
  term: Term,
): AsyncGenerator<string> {
  const { bucket: sourceBucket, inventory, startedAt } = run;
  const { Bucket: destinationBucket, Format: fileFormat } = inventory.Destination.S3BucketDestination;
  const columns = listColumns(inventory);
  const head = {
    sourceBucket,
    destinationBucket,
    version: '2016-11-30',
    creationTimestamp: String(startedAt),
    fileFormat,
    fileSchema: fileFormat === 'Parquet' ? parquetSchema(columns) : csvSchema(columns),
  };
  yield `${JSON.stringify(head).slice(0, -1)},"files":[`;
  let separator = '';
  for await (const { key, size, md5: MD5checksum } of filesOfRun(metadata, run, term)) {
    yield `${separator}${JSON.stringify({ key, size, MD5checksum })}`;
    separator = ',';
  }
  yield ']}';
}

async function* encoded(texts: Iterable<string> | AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for await (const text of texts) yield encoder.encode(text);
}

// Where an inventory is written: the bucket as it is now, and the keys (public API "Locating your inventory list").

const namedIn = ({ Destination }: Inventory): string => {
  const { Bucket } = Destination.S3BucketDestination;
  return Bucket.slice(Bucket.lastIndexOf(':') + 1);
};

/** Why an inventory cannot be written now. */
type Refused = 'no-bucket' | 'other-owner' | 'other-region' | 'key-too-long' | 'denied';

async function openDestination(
  ctx: Pick<Context, 'metadata'> & { readonly mayWrite: MayWrite },
  source: BucketRow,
  run: InventoryRun,
): Promise<BucketRow | Refused> {
  const { inventory } = run;
  const bucket = (await findBucket(ctx.metadata, namedIn(inventory)))?.row;
  if (bucket === undefined) return 'no-bucket';
  if (bucket.owner !== source.owner) return 'other-owner';
  if (bucket.region !== source.region) return 'other-region';
  const { manifest, dataFile } = inventoryKeys(run);
  if ([manifest, dataFile(0)].some(isKeyTooLong)) return 'key-too-long';
  const mayWrite = await ctx.mayWrite({
    service: services.inventory,
    bucket,
    key: manifest,
    source: { bucket: source.name, account: source.owner },
  });
  return mayWrite ? bucket : 'denied';
}

/** Absent encryption means the default of the destination. */
function requestedEncryption({ Destination }: Inventory): RequestedEncryption {
  const { Encryption = {} } = Destination.S3BucketDestination;
  if (Encryption['SSE-KMS'] !== undefined) {
    const { KeyId } = Encryption['SSE-KMS'];
    return { by: 'provider', keyId: KeyId };
  }
  return Encryption['SSE-S3'] === undefined ? { by: 'default' } : { by: 'service' };
}

function inventoryKeys({ bucket, inventory, startedAt, fileId }: InventoryRun) {
  const { Prefix = '', Format } = inventory.Destination.S3BucketDestination;
  const root = `${Prefix === '' ? '' : `${Prefix.replace(/\/$/, '')}/`}${bucket}/${inventory.Id}`;
  const [date = '', time = ''] = new Date(startedAt).toISOString().split('T');
  const minute = time.slice(0, 5).replace(':', '-');
  const suffix = Format === 'Parquet' ? 'parquet' : 'csv.gz';
  return {
    manifest: `${root}/${date}T${minute}Z/manifest.json`,
    checksum: `${root}/${date}T${minute}Z/manifest.checksum`,
    symlink: `${root}/hive/dt=${date}-${minute}/symlink.txt`,
    dataFile: (n: number): string => `${root}/data/${fileId}-${String(n).padStart(5, '0')}.${suffix}`,
  };
}

// Data files as gzipped CSV: every value is quoted, keys are percent-encoded.

const csvSchema = (columns: readonly InventoryColumn[]): string => columns.map(({ csv }) => csv).join(', ');

const encodeKey = (key: string): string => encodeURIComponent(key).replaceAll('%2F', '/');

function formatValue({ csv, type }: InventoryColumn, value: Value): string {
  if (value === undefined) return '""';
  if (csv === 'Key') return `"${encodeKey(String(value))}"`;
  if (type === 'moment') return `"${new Date(Number(value)).toISOString()}"`;
  return `"${String(value).replaceAll('"', '""')}"`;
}

export async function* csvGzip(
  pages: AsyncIterable<readonly ObjectRow[]>,
  { columns, facts }: { readonly columns: readonly InventoryColumn[]; readonly facts: InventoryFacts },
): AsyncGenerator<Uint8Array> {
  yield* gzip(lines(pages, { columns, facts }));
}

async function* lines(
  pages: AsyncIterable<readonly ObjectRow[]>,
  { columns, facts }: { readonly columns: readonly InventoryColumn[]; readonly facts: InventoryFacts },
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  for await (const rows of pages) {
    let text = '';
    for (const row of rows)
      text += `${columns.map((column) => formatValue(column, column.read(row, facts))).join(',')}\n`;
    yield encoder.encode(text);
  }
}

async function* gzip(source: AsyncIterable<Uint8Array<ArrayBuffer>>): AsyncGenerator<Uint8Array> {
  const { readable, writable } = new CompressionStream('gzip');
  const writer = writable.getWriter();
  let failed: { readonly cause: unknown } | undefined;
  const pump = async (): Promise<void> => {
    try {
      for await (const bytes of source) await writer.write(bytes);
      await writer.close();
    } catch (cause) {
      failed = { cause };
      await writer.abort(cause).catch(() => {});
    }
  };
  const pumped = pump();
  const reader = readable.getReader();
  try {
    for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
  } catch (cause) {
    // The stream may report a failure of its source in words of its own.
    throw failed === undefined ? cause : failed.cause;
  } finally {
    // A consumer that stops early ends the source too.
    await reader.cancel().catch(() => {});
    await pumped;
  }
}

// Data files as Parquet: row groups that are small, so that little is held in memory, compressed by Snappy.

/**
 * Rows of a group: few, because a group is encoded in one turn of the event loop; and not fewer, because the end of the file describes
 * each group, also in one turn.
 */
const groupRows = 4_000;

const physical = { text: 'BYTE_ARRAY', integer: 'INT64', boolean: 'BOOLEAN', moment: 'INT64' } as const;
const converted = { text: 'UTF8', moment: 'TIMESTAMP_MILLIS' } as const;
const schemaWords = {
  text: ['binary', ' (UTF8)'],
  integer: ['int64', ''],
  boolean: ['boolean', ''],
  moment: ['int64', ' (TIMESTAMP_MILLIS)'],
} as const;

const isRequired = ({ csv }: InventoryColumn): boolean => csv === 'Bucket' || csv === 'Key';

/** The schema as the manifest states it. */
function parquetSchema(columns: readonly InventoryColumn[]): string {
  const fields = columns.map((column) => {
    const [type, logical] = schemaWords[column.type];
    return `${isRequired(column) ? 'required' : 'optional'} ${type} ${column.parquet}${logical};`;
  });
  return `message s3.inventory { ${fields.join(' ')} }`;
}

/** Parquet's 64-bit integers are `bigint` in JavaScript. */
function toCell({ type }: InventoryColumn, value: Value): string | bigint | boolean | undefined {
  if (value === undefined) return undefined;
  return type === 'integer' || type === 'moment' ? BigInt(value) : (value as string | boolean);
}

export async function* parquet(
  pages: AsyncIterable<readonly ObjectRow[]>,
  { columns, facts }: { readonly columns: readonly InventoryColumn[]; readonly facts: InventoryFacts },
): AsyncGenerator<Uint8Array> {
  // Loaded only where it is used: it takes 40 ms, and the gateway starts without it.
  const { ByteWriter } = await import('hyparquet-writer/src/bytewriter.js');
  const { ParquetWriter } = await import('hyparquet-writer/src/parquet-writer.js');
  const bytes = new ByteWriter(64 * 1024);
  const writer = new ParquetWriter({
    writer: bytes,
    createdBy: 'sluice',
    schema: [
      { name: 's3.inventory', num_children: columns.length },
      ...columns.map((column) => ({
        name: column.parquet,
        type: physical[column.type],
        repetition_type: isRequired(column) ? ('REQUIRED' as const) : ('OPTIONAL' as const),
        ...(column.type in converted
          ? { converted_type: converted[column.type as keyof typeof converted] }
          : {}),
      })),
    ],
  });
  const take = (): Uint8Array => {
    const taken = bytes.getBytes().slice();
    bytes.index = 0;
    return taken;
  };
  let cells = columns.map((): ReturnType<typeof toCell>[] => []);
  const flush = async (): Promise<Uint8Array> => {
    const columnData = columns.map((column, n) => ({
      name: column.parquet,
      data: cells[n] ?? [],
      offsetIndex: false,
      ...(column.isMostlyDistinct ? { encoding: 'PLAIN' as const } : {}),
    }));
    const rows = cells[0]?.length ?? 0;
    cells = columns.map(() => []);
    await writer.write({ columnData, rowGroupSize: Math.max(1, rows) });
    return take();
  };
  for await (const rows of pages) {
    for (const row of rows)
      for (const [n, column] of columns.entries()) cells[n]?.push(toCell(column, column.read(row, facts)));
    if ((cells[0]?.length ?? 0) >= groupRows) yield await flush();
  }
  if ((cells[0]?.length ?? 0) > 0) yield await flush();
  await writer.finish();
  yield take();
}
