/**
 * The kills of `every-await.test.ts` over real engines: a gateway that is killed at any call of a port leaves the old state or the new
 * one.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OrderedKvOptions, orderedKvStore } from '../../src/backends/metadata/ordered-kv/store.ts';
import { wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { tables } from '../../src/metadata/tables.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { emptyKeyspace, noCassandra, startCassandra } from '../support/engines/cassandra.ts';
import { noTikv, startTikv } from '../support/engines/tikv.ts';
import { completeSpec, elements, pathOf } from '../support/load-client.ts';
import type { RequestSpec } from '../support/sign.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';
import { type FrontDoor, frontDoor, type Process } from './front-door.ts';

/** Long enough that the store's own timer, which runs on the real clock, never renews. */
const intentTtlMs = 24 * 60 * 60_000;

interface Opened extends AsyncDisposable {
  readonly metadata: MetadataStore;
}
type Time = Required<Pick<OrderedKvOptions, 'clock' | 'random' | 'storeClock' | 'intentTtlMs'>>;

const kinds: Readonly<
  Record<string, { readonly missing: string | undefined; open(time: Time): Promise<Opened> }>
> = {
  'wide-column': {
    missing: noCassandra,
    async open(time) {
      const engine = await startCassandra();
      const keyspace = 'kill_stages';
      await emptyKeyspace(engine.hosts, keyspace);
      const replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
      const metadata = await wideColumnStore({
        hosts: engine.hosts,
        localDc: 'dc1',
        keyspace,
        replication,
        tables: Object.values(tables),
        ...time,
      });
      return closing(metadata, engine);
    },
  },
  'ordered-kv': {
    missing: noTikv,
    async open(time) {
      const engine = await startTikv();
      const prefix = `${randomBytes(8).toString('hex')}/`;
      return closing(orderedKvStore({ endpoints: engine.endpoints, prefix, ...time }), engine);
    },
  },
};

const closing = (metadata: MetadataStore, engine: AsyncDisposable): Opened => ({
  metadata,
  async [Symbol.asyncDispose]() {
    await metadata.close();
    await engine[Symbol.asyncDispose]();
  },
});

interface Scenario {
  readonly versioned: boolean;
  /** Prepares a bucket, and returns the request during which the gateway dies. */
  prepare(client: Process, bucket: string): Promise<RequestSpec>;
}

async function ok(client: Process, spec: RequestSpec): Promise<string> {
  const answer = await client.send(spec);
  if (answer.status >= 300) throw new Error(`${spec.method} ${spec.path}: ${answer.status} ${answer.text}`);
  return `${answer.headers.get('x-amz-version-id') ?? ''}${answer.text}`;
}

const put = (bucket: string, body: string): RequestSpec => ({
  method: 'PUT',
  path: pathOf(bucket, 'key'),
  body,
});

const scenarios: Readonly<Record<string, Scenario>> = {
  'an overwrite': {
    versioned: false,
    async prepare(client, bucket) {
      await ok(client, put(bucket, 'zero'));
      return put(bucket, 'one');
    },
  },
  'a versioned PUT': {
    versioned: true,
    async prepare(client, bucket) {
      await ok(client, put(bucket, 'zero'));
      return put(bucket, 'one');
    },
  },
  'a delete of the newest version': {
    versioned: true,
    async prepare(client, bucket) {
      await ok(client, put(bucket, 'zero'));
      const versionId = await ok(client, put(bucket, 'one'));
      return { method: 'DELETE', path: pathOf(bucket, 'key'), query: { versionId } };
    },
  },
  'a CompleteMultipartUpload': {
    versioned: true,
    async prepare(client, bucket) {
      await ok(client, put(bucket, 'zero'));
      const path = pathOf(bucket, 'key');
      const created = await ok(client, { method: 'POST', path, query: { uploads: '' } });
      const [uploadId = ''] = elements(created, 'UploadId');
      const part = { method: 'PUT', path, query: { uploadId, partNumber: '1' }, body: 'part' };
      const { headers } = await client.send(part);
      return completeSpec({ bucket, key: 'key', uploadId }, [headers.get('etag') ?? '']);
    },
  },
};

/** Everything that a client can see of a bucket, without the values that differ from run to run. */
async function visible(client: Process, bucket: string): Promise<string> {
  const seen: string[] = [];
  for (const spec of [
    { path: pathOf(bucket, 'key') },
    { path: pathOf(bucket), query: { 'list-type': '2' } },
    { path: pathOf(bucket), query: { versions: '' } },
  ]) {
    const { status, text } = await client.send(spec);
    const names = ['Key', 'ETag', 'Size', 'IsLatest', 'Code'];
    seen.push(
      `${status} ${text.startsWith('<') ? names.map((name) => elements(text, name).join()).join(' ') : text}`,
    );
  }
  return seen.join('\n');
}

async function prepared(world: FrontDoor, bucket: string, { versioned, prepare }: Scenario) {
  const client = world.process();
  await ok(client, { method: 'PUT', path: pathOf(bucket) });
  const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  if (versioned) await ok(client, { method: 'PUT', path: pathOf(bucket), query: { versioning: '' }, body });
  return prepare(client, bucket);
}

for (const [kind, { missing, open }] of Object.entries(kinds)) {
  describe.skipIf(missing !== undefined)(`on ${kind} ${missing ?? ''}, killed at any call of a port`, () => {
    let clock: VirtualClock;
    let world: FrontDoor;
    let opened: Opened;
    let buckets = 0;
    beforeAll(async () => {
      clock = virtualClock();
      const storeClock = async (): Promise<number> => clock.now();
      opened = await open({ clock, storeClock, random: systemRandom(), intentTtlMs });
      world = frontDoor(
        { SVC_INTENT_TTL: '1h' },
        { kept: { clock, metadata: opened.metadata, intentTtlMs } },
      );
    });
    afterAll(() => opened?.[Symbol.asyncDispose]());

    test.each(Object.entries(scenarios))('%s', async (_, scenario) => {
      const fresh = (): string => `bucket-${buckets++}`;
      const whole = fresh();
      const spec = await prepared(world, whole, scenario);
      const before = await visible(world.process(), whole);
      await ok(world.process(), spec);
      const ends = [before, await visible(world.process(), whole)];
      let calls = 0;
      for (const when of ['before', 'after'] as const) {
        for (let call = 1, lived = false; !lived; call += 1) {
          const bucket = fresh();
          const request = await prepared(world, bucket, scenario);
          const process = world.process({ call, when });
          await Promise.race([process.send(request), process.died]);
          lived = !process.hasDied();
          const at = `${when} call ${call}`;
          expect(ends, at).toContain(await visible(world.process(), bucket));
          calls = Math.max(calls, call);
        }
      }
      // Clean up once for all dead processes, because a complete check takes long on engines.
      await world.cleanUp();
      expect(await world.faults()).toEqual([]);
      for (let each = buckets - 1; each >= 0 && `bucket-${each}` !== whole; each -= 1)
        expect(ends).toContain(await visible(world.process(), `bucket-${each}`));
      expect(calls).toBeGreaterThan(3);
    });
  });
}
