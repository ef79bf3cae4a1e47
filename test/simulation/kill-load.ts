/** A load of every kind of write on two buckets, which may be interrupted at any time, and the check that no acknowledged write is lost. */
import {
  completeSpec,
  createUpload,
  elements,
  type LoadClient,
  pathOf,
  Unanswered,
  uploadParts,
} from '../support/load-client.ts';
import {
  bodyOf,
  bytesOf,
  type Content,
  Model,
  md5Hex,
  type Shown,
  type State,
  seeded,
  sizeOf,
  type Version,
} from '../support/load-model.ts';

const workerCount = 8;
const keysPerWorker = 5;
/** When a key has more versions than this, one is removed. */
const versionsMax = 4;
const partBytesMin = 5 * 1024 * 1024;
const sizes = [0, 17, 4096, 4096, 20_000, 70_000, 300_000];

export const buckets: readonly { readonly name: string; readonly versioned: boolean }[] = [
  { name: 'plain', versioned: false },
  { name: 'versioned', versioned: true },
];

export type Models = ReadonlyMap<string, Model>;
export const newModels = (): Models =>
  new Map(buckets.map(({ name, versioned }) => [name, new Model(versioned)]));

export interface Tally {
  acknowledged: number;
  doubtful: number;
  readonly byKind: Record<string, number>;
  /** The first answers that left an outcome open, to show when too few writes are acknowledged. */
  readonly refusals: string[];
}

const refusalsMax = 5;

export const newTally = (): Tally => ({ acknowledged: 0, doubtful: 0, byKind: {}, refusals: [] });

interface Run {
  readonly client: LoadClient;
  readonly models: Models;
  readonly random: () => number;
  readonly tally: Tally;
}

interface Place {
  readonly bucket: string;
  readonly key: string;
}

export async function createBuckets(client: LoadClient): Promise<void> {
  for (const { name, versioned } of buckets) {
    await client.expect({ method: 'PUT', path: pathOf(name) });
    if (!versioned) continue;
    const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    await client.expect({ method: 'PUT', path: pathOf(name), query: { versioning: '' }, body });
  }
}

/** Works until the signal aborts. A key whose request was not answered is not used again. */
export async function load(
  client: LoadClient,
  models: Models,
  { seed, tally, signal }: { readonly seed: number; readonly tally: Tally; readonly signal: AbortSignal },
): Promise<void> {
  const workers = Array.from({ length: workerCount }, async (_, worker) => {
    const run = { client, models, tally, random: seeded(seed * 1000 + worker) };
    while (!signal.aborted) {
      try {
        await step(run, worker);
      } catch (cause) {
        if (!(cause instanceof Unanswered)) throw cause;
        // The server is restarting, or all its processes are about to be killed.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  });
  await Promise.all(workers);
}

const pick = <Each>({ random }: Run, from: readonly Each[]): Each =>
  from[Math.floor(random() * from.length)] as Each;

/** Sends one request, or one upload, for a key of this worker. */
async function step(run: Run, worker: number): Promise<void> {
  const places = buckets.flatMap(({ name }) =>
    Array.from({ length: keysPerWorker }, (_, i) => ({ bucket: name, key: `w${worker}/key ${i}` })),
  );
  const certain = places.filter(({ bucket, key }) => run.models.get(bucket)?.certain(key) !== undefined);
  if (certain.length === 0) return void (await new Promise((resolve) => setTimeout(resolve, 10)));
  const place = pick(run, certain);
  const state = run.models.get(place.bucket)?.certain(place.key) ?? [];
  const dice = run.random();
  if (state.length > versionsMax || (dice < 0.08 && state.length > 0))
    return removeVersion(run, place, state);
  if (dice < 0.2) return remove(run, place);
  if (dice < 0.25) return removeMany(run, [...new Set([place, pick(run, certain)])]);
  if (dice < 0.4) return copy(run, place, pick(run, certain));
  if (dice < 0.55) return multipart(run, place);
  if (dice < 0.65) return read(run, place, state);
  return put(run, place);
}

const freshContent = (run: Run): Content => ({
  seed: Math.floor(run.random() * 2 ** 31),
  size: run.random() < 0.03 ? partBytesMin + 123 : pick(run, sizes),
});

/** Sends a write whose outcome is unknown until it is answered. */
async function attempt(run: Run, kind: string, { place, after, send }: Attempt): Promise<void> {
  const model = run.models.get(place.bucket);
  model?.doubt(place.key, after);
  run.tally.doubtful += 1;
  const id = await send();
  // Refused or failed: the outcome stays unknown.
  if (id === undefined) return;
  const [first, ...rest] = after;
  const isNew = first !== undefined && first.id === undefined;
  model?.settle(place.key, isNew ? [{ ...first, id: id === '' ? 'null' : id }, ...rest] : after);
  run.tally.doubtful -= 1;
  run.tally.acknowledged += 1;
  run.tally.byKind[kind] = (run.tally.byKind[kind] ?? 0) + 1;
}

interface Attempt {
  readonly place: Place;
  readonly after: State;
  /** The version id, '' when there is none; undefined when the answer does not name it. */
  readonly send: () => Promise<string | undefined>;
}

async function idOf(run: Run, spec: Parameters<LoadClient['send']>[0]): Promise<string | undefined> {
  const { status, headers, text } = await run.client.send(spec);
  if (status >= 500) {
    const { refusals } = run.tally;
    if (refusals.length < refusalsMax)
      refusals.push(`${spec.method} ${spec.path}: ${status} ${text.slice(0, 300)}`);
    return undefined;
  }
  if (status >= 300 || text.includes('<Error>'))
    throw new Error(`${spec.method} ${spec.path}: ${status} ${text}`);
  return String(headers['x-amz-version-id'] ?? '');
}

async function put(run: Run, place: Place): Promise<void> {
  const content = freshContent(run);
  const body = bytesOf(content);
  const version: Version = { id: undefined, contents: [content], etag: md5Hex(body) };
  const after = run.models.get(place.bucket)?.withVersion(place.key, version) ?? [];
  const payload = run.random() < 0.3 ? ('streaming' as const) : ('signed' as const);
  const spec = { method: 'PUT', path: pathOf(place.bucket, place.key), body, payload };
  await attempt(run, 'put', { place, after, send: () => idOf(run, spec) });
}

async function remove(run: Run, place: Place): Promise<void> {
  const after = run.models.get(place.bucket)?.withVersion(place.key, { id: undefined, etag: '' }) ?? [];
  const spec = { method: 'DELETE', path: pathOf(place.bucket, place.key) };
  await attempt(run, 'delete', { place, after, send: () => idOf(run, spec) });
}

async function removeMany(run: Run, places: readonly Place[]): Promise<void> {
  const own = places.filter(({ bucket }) => bucket === 'plain');
  for (const { bucket, key } of own) run.models.get(bucket)?.doubt(key, []);
  if (own.length === 0) return;
  run.tally.doubtful += own.length;
  const body = `<Delete>${own.map(({ key }) => `<Object><Key>${key}</Key></Object>`).join('')}</Delete>`;
  const { status, text } = await run.client.send({
    method: 'POST',
    path: pathOf('plain'),
    query: { delete: '' },
    body,
    headers: { 'content-md5': Buffer.from(md5Hex(Buffer.from(body)), 'hex').toString('base64') },
  });
  if (status >= 500) return;
  if (status !== 200) throw new Error(`DeleteObjects: ${status} ${text}`);
  const deleted = elements(text, 'Key');
  if (text.includes('<Error>')) return;
  if (deleted.length !== own.length) throw new Error(`DeleteObjects of ${own.length}: ${text}`);
  for (const { bucket, key } of own) run.models.get(bucket)?.settle(key, []);
  run.tally.doubtful -= own.length;
  run.tally.acknowledged += own.length;
  run.tally.byKind['delete-objects'] = (run.tally.byKind['delete-objects'] ?? 0) + own.length;
}

async function removeVersion(run: Run, place: Place, state: State): Promise<void> {
  const version = pick(run, state);
  const after = state.filter((each) => each !== version);
  const query = { versionId: version.id ?? '' };
  const spec = { method: 'DELETE', path: pathOf(place.bucket, place.key), query };
  await attempt(run, 'delete-version', { place, after, send: () => idOf(run, spec) });
}

async function copy(run: Run, place: Place, from: Place): Promise<void> {
  const [source] = run.models.get(from.bucket)?.certain(from.key) ?? [];
  if (source?.contents === undefined || (from.bucket === place.bucket && from.key === place.key)) return;
  const version: Version = { ...source, id: undefined, etag: md5Hex(bodyOf(source)) };
  const after = run.models.get(place.bucket)?.withVersion(place.key, version) ?? [];
  const spec = {
    method: 'PUT',
    path: pathOf(place.bucket, place.key),
    headers: { 'x-amz-copy-source': pathOf(from.bucket, from.key) },
  };
  await attempt(run, 'copy', { place, after, send: () => idOf(run, spec) });
}

async function multipart(run: Run, place: Place): Promise<void> {
  const isLarge = run.random() < 0.1;
  const contents = [
    ...(isLarge ? [{ ...freshContent(run), size: partBytesMin }] : []),
    { ...freshContent(run), size: pick(run, sizes.slice(1)) },
  ];
  const bodies = contents.map(bytesOf);
  const to = { ...place, uploadId: '' };
  let etags: readonly string[];
  try {
    to.uploadId = await createUpload(run.client, place.bucket, place.key);
    etags = await uploadParts(run.client, to, bodies);
  } catch (cause) {
    // No version exists yet, so a 5xx, as when a process of the server dies, is no contradiction.
    if (cause instanceof Error && /: 5\d\d /.test(cause.message)) return;
    throw cause;
  }
  const digests = Buffer.concat(bodies.map((body) => Buffer.from(md5Hex(body), 'hex')));
  const version: Version = { id: undefined, contents, etag: `${md5Hex(digests)}-${bodies.length}` };
  const after = run.models.get(place.bucket)?.withVersion(place.key, version) ?? [];
  await attempt(run, 'complete', { place, after, send: () => idOf(run, completeSpec(to, etags)) });
}

async function read(run: Run, place: Place, state: State): Promise<void> {
  const [head] = state;
  const { status, body } = await run.client.send({ path: pathOf(place.bucket, place.key) });
  if (status >= 500) return;
  const expected = head?.contents === undefined ? 404 : 200;
  if (status !== expected) throw new Error(`GET ${place.bucket}/${place.key}: ${status}, not ${expected}`);
  if (status === 200 && head !== undefined && !body.equals(bodyOf(head)))
    throw new Error(`GET ${place.bucket}/${place.key}: other bytes than were acknowledged`);
}

/** Expects every acknowledged version with its exact bytes, one outcome for every unknown write, and listings that agree. */
export async function verify(client: LoadClient, models: Models): Promise<string[]> {
  const faults: string[] = [];
  for (const [bucket, model] of models) {
    faults.push(...model.resolve(await listVersions(client, bucket)).map((fault) => `${bucket}: ${fault}`));
    const listed = await listLive(client, bucket);
    if (listed.join('\n') !== model.live().join('\n'))
      faults.push(`${bucket}: listed ${JSON.stringify(listed)}, expected ${JSON.stringify(model.live())}`);
    for (const { key, version, isLatest } of model.versions()) {
      if (version.contents === undefined) continue;
      const query: Record<string, string> = isLatest ? {} : { versionId: version.id ?? '' };
      const { status, body } = await client.send({ path: pathOf(bucket, key), query });
      if (status !== 200 || !body.equals(bodyOf(version)))
        faults.push(`${bucket}/${key} ${version.id}: ${status}, ${body.length} of ${sizeOf(version)} bytes`);
    }
  }
  return faults;
}

async function listVersions(client: LoadClient, bucket: string): Promise<Shown[]> {
  const shown: Shown[] = [];
  let query: Record<string, string> = { versions: '', 'max-keys': '11' };
  for (;;) {
    const { text } = await client.expect({ path: pathOf(bucket), query });
    for (const [, kind, xml = ''] of text.matchAll(/<(Version|DeleteMarker)>([\s\S]*?)<\/\1>/g)) {
      const field = (name: string): string => elements(xml, name)[0] ?? '';
      shown.push({
        key: field('Key'),
        id: field('VersionId'),
        isMarker: kind === 'DeleteMarker',
        isLatest: field('IsLatest') === 'true',
        etag: field('ETag').replaceAll('"', ''),
        size: Number(field('Size')),
      });
    }
    if (!text.includes('<IsTruncated>true')) return shown;
    const next = (name: string): string => elements(text, name)[0] ?? '';
    query = {
      ...query,
      'key-marker': next('NextKeyMarker'),
      'version-id-marker': next('NextVersionIdMarker'),
    };
  }
}

async function listLive(client: LoadClient, bucket: string): Promise<string[]> {
  const listed: string[] = [];
  let query: Record<string, string> = { 'list-type': '2', 'max-keys': '7' };
  for (;;) {
    const { text } = await client.expect({ path: pathOf(bucket), query });
    for (const xml of elements(text, 'Contents')) {
      const field = (name: string): string => elements(xml, name)[0] ?? '';
      listed.push(`${field('Key')} ${field('ETag').replaceAll('"', '')} ${field('Size')}`);
    }
    const [token] = elements(text, 'NextContinuationToken');
    if (token === undefined) return listed;
    query = { ...query, 'continuation-token': token };
  }
}

/** Aborts every upload that a killed client left open, so that its parts are deleted. */
export async function abortUploads(client: LoadClient): Promise<number> {
  let aborted = 0;
  for (const { name } of buckets) {
    const { text } = await client.expect({ path: pathOf(name), query: { uploads: '' } });
    for (const xml of elements(text, 'Upload')) {
      const [key = ''] = elements(xml, 'Key');
      const [uploadId = ''] = elements(xml, 'UploadId');
      await client.expect({ method: 'DELETE', path: pathOf(name, key), query: { uploadId } }, [204, 404]);
      aborted += 1;
    }
  }
  return aborted;
}
