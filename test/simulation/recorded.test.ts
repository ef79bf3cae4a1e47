/** The audit row and the events of a change exist if and only if the change applied, whenever its process dies. */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { putPeer } from '../../src/domain/replication/peers.ts';
import type { ReplicationTask } from '../../src/metadata/records/queues.ts';
import { objects } from '../../src/metadata/tables.ts';
import { completeSpec, elements, pathOf } from '../support/load-client.ts';
import { auditRows, eventsOf, tasksOf } from '../support/recorded.ts';
import type { RequestSpec } from '../support/sign.ts';
import { untilDeath } from './death.ts';
import { type Answer, type FrontDoor, frontDoor, type Process } from './front-door.ts';

interface Given {
  readonly uploadId?: string;
  readonly etag?: string;
  readonly versionId?: string;
}
interface Scenario {
  readonly versioned?: true;
  readonly before?: (client: Process) => Promise<Given>;
  readonly request: (given: Given) => RequestSpec;
  readonly event: string;
}

async function ok(client: Process, spec: RequestSpec): Promise<Answer> {
  const answer = await client.send(spec);
  if (answer.status >= 300) throw new Error(`${spec.method} ${spec.path}: ${answer.status} ${answer.text}`);
  return answer;
}

const path = pathOf('bucket', 'key');
const put = (body: string): RequestSpec => ({ method: 'PUT', path, body });
const exists = async (client: Process): Promise<Given> => ({
  versionId: (await ok(client, put('zero'))).headers.get('x-amz-version-id') ?? '',
});
const uploads = async (client: Process): Promise<Given> => {
  const created = await ok(client, { method: 'POST', path, query: { uploads: '' } });
  const [uploadId = ''] = elements(created.text, 'UploadId');
  const part = await ok(client, { method: 'PUT', path, query: { uploadId, partNumber: '1' }, body: 'part' });
  return { uploadId, etag: part.headers.get('etag') ?? '' };
};

const scenarios: Readonly<Record<string, Scenario>> = {
  'a PUT': { request: () => put('one'), event: 'ObjectCreated:Put' },
  'an overwrite': { before: exists, request: () => put('one'), event: 'ObjectCreated:Put' },
  'a versioned PUT': {
    versioned: true,
    before: exists,
    request: () => put('one'),
    event: 'ObjectCreated:Put',
  },
  'a copy onto itself': {
    versioned: true,
    before: exists,
    request: () => ({
      method: 'PUT',
      path,
      headers: { 'x-amz-copy-source': '/bucket/key', 'x-amz-metadata-directive': 'REPLACE' },
    }),
    event: 'ObjectCreated:Copy',
  },
  'a completion': {
    versioned: true,
    before: uploads,
    request: ({ uploadId = '', etag = '' }) =>
      completeSpec({ bucket: 'bucket', key: 'key', uploadId }, [etag]),
    event: 'ObjectCreated:CompleteMultipartUpload',
  },
  'a DELETE': { before: exists, request: () => ({ method: 'DELETE', path }), event: 'ObjectRemoved:Delete' },
  'a delete marker': {
    versioned: true,
    before: exists,
    request: () => ({ method: 'DELETE', path }),
    event: 'ObjectRemoved:DeleteMarkerCreated',
  },
  'a delete of a version': {
    versioned: true,
    before: exists,
    request: ({ versionId = '' }) => ({ method: 'DELETE', path, query: { versionId } }),
    event: 'ObjectRemoved:Delete',
  },
  'a DeleteObjects': {
    before: exists,
    request: () => ({
      method: 'POST',
      path: pathOf('bucket'),
      query: { delete: '' },
      body: '<Delete><Object><Key>key</Key></Object></Delete>',
    }),
    event: 'ObjectRemoved:Delete',
  },
  tagging: {
    versioned: true,
    before: exists,
    request: () => ({
      method: 'PUT',
      path,
      query: { tagging: '' },
      body: '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>',
    }),
    event: 'ObjectTagging:Put',
  },
};

const notification = `<NotificationConfiguration><QueueConfiguration><Id>all</Id>
  <Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:*</Event><Event>s3:ObjectTagging:*</Event>
  <Queue>arn:aws:sqs:default:1:jobs</Queue></QueueConfiguration></NotificationConfiguration>`;
const replication = `<ReplicationConfiguration><Role>arn:aws:iam::1:role/r</Role><Rule><ID>r</ID><Priority>1</Priority>
  <Filter><Prefix></Prefix></Filter><Status>Enabled</Status><Destination><Bucket>arn:aws:s3:::other</Bucket></Destination>
  <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`;

async function worldOf({ versioned, before }: Scenario) {
  const world = frontDoor({
    SVC_NOTIFY_TARGETS:
      '[{"id":"jobs","accounts":["*"],"type":"redis","url":"redis://example.com","key":"events"}]',
  });
  const client = world.process();
  const configure = (name: string, body: string) =>
    ok(client, { method: 'PUT', path: pathOf('bucket'), query: { [name]: '' }, body });
  await ok(client, { method: 'PUT', path: pathOf('bucket') });
  if (versioned) {
    const access = { accessKey: 'key', secretKey: 'secret', endpoint: 'http://127.0.0.1:9', region: 'r' };
    const peer = { access, bandwidth: undefined, accounts: undefined, record: undefined, check: () => {} };
    await putPeer(world, 'default', peer);
    await configure(
      'versioning',
      '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    );
    await configure('replication', replication);
  }
  const given = (await before?.(client)) ?? {};
  await configure('notification', notification);
  return { world, given };
}

interface Recorded {
  readonly state: string;
  readonly events: readonly string[];
  readonly replications: number;
  readonly audits: number;
  /** Rows that name the keys of a DeleteObjects. */
  readonly keyPages: number;
}

async function recordedIn(world: FrontDoor): Promise<Recorded> {
  const { id } = await openBucket(world, 'bucket');
  const rows = await world.metadata.scan({ table: objects, in: { bucketId: id } }).next(100);
  const pending = await tasksOf<ReplicationTask>(world, 'replication');
  const audits = await auditRows(world);
  return {
    state: JSON.stringify(
      rows.map(({ row }) => [row.version, row.marker, row.headers.tags, row.replication]),
    ),
    events: (await eventsOf(world)).map(({ eventName }) => eventName),
    replications: pending.length,
    audits: audits.filter(({ keys }) => keys === undefined).length,
    keyPages: audits.filter(({ keys }) => keys !== undefined).length,
  };
}

describe('killed at any call of a port', () => {
  for (const [name, scenario] of Object.entries(scenarios)) {
    test(`${name} is recorded if and only if it happened`, async () => {
      const seen = { happened: 0, not: 0 };
      for (const when of ['before', 'after'] as const) {
        for (let call = 1, lived = false; !lived; call += 1) {
          const { world, given } = await worldOf(scenario);
          const before = await recordedIn(world);
          const process = world.process({ call, when });
          await untilDeath(process, process.send(scenario.request(given)));
          lived = !process.hasDied();
          await world.cleanUp();
          const after = await recordedIn(world);
          const happened = after.state !== before.state;
          seen[happened ? 'happened' : 'not'] += 1;
          const at = `${when} call ${call}`;
          expect(after.events, at).toEqual(happened ? [scenario.event] : []);
          const copies = happened && scenario.versioned && name !== 'a delete of a version' ? 1 : 0;
          expect(after.replications - before.replications, at).toBe(copies);
          const audits = after.audits - before.audits;
          expect(happened ? audits === 1 : audits <= 1, `${at}: ${audits} audit rows`).toBe(true);
          // The page is written before the deletion, so it may name a key that stays.
          if (name === 'a DeleteObjects' && happened) expect(after.keyPages, at).toBe(1);
        }
      }
      expect(Math.min(seen.happened, seen.not)).toBeGreaterThan(0);
    });
  }
});
