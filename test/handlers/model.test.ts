/** Random histories of a few keys against a simple model. @storage */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';

const keys = ['a', 'a/b', 'é'];
const raw = (key: string): string => `/bucket/${key.split('/').map(encodeURIComponent).join('/')}`;

type Step =
  | {
      readonly do: 'put' | 'copy' | 'complete';
      readonly key: number;
      readonly body: string;
      readonly from: number;
    }
  | { readonly do: 'delete'; readonly key: number }
  | { readonly do: 'delete version'; readonly key: number; readonly pick: number }
  | { readonly do: 'flip'; readonly to: 'Enabled' | 'Suspended' };

const key = fc.nat(keys.length - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('put', 'put', 'put', 'copy', 'complete'),
      key,
      body: fc.string({ maxLength: 20 }),
      from: key,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('delete'), key }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('delete version'), key, pick: fc.nat(5) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('flip'), to: fc.constantFrom('Enabled', 'Suspended') }),
  },
) as fc.Arbitrary<Step>;

/** A version in the model; the newest comes first under each key. */
interface Version {
  readonly id: string;
  readonly body: string | undefined;
}

class Model {
  versioning = '';
  readonly #versions = new Map<string, Version[]>();

  of(name: string): readonly Version[] {
    return this.#versions.get(name) ?? [];
  }
  add(name: string, version: Version): void {
    const rest = this.of(name).filter(({ id }) => version.id !== 'null' || id !== 'null');
    this.#versions.set(name, [version, ...rest]);
  }
  delete(name: string, id: string): void {
    if (this.versioning === '') this.#versions.delete(name);
    else this.add(name, { id, body: undefined });
  }
  remove(name: string, id: string): void {
    this.#versions.set(
      name,
      this.of(name).filter((version) => version.id !== id),
    );
  }
  all(): { key: string; version: Version; isLatest: boolean }[] {
    const sorted = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    return sorted.flatMap((each) =>
      this.of(each).map((version, i) => ({ key: each, version, isLatest: i === 0 })),
    );
  }
}

/** Takes one step in both worlds. The gateway chooses the version id; the model determines whether there is one. */
async function take(world: GatewayWorld, model: Model, one: Step): Promise<void> {
  const { client } = world;
  if (one.do === 'flip') {
    expect((await setVersioning(client, 'bucket', one.to)).status).toBe(200);
    model.versioning = one.to;
    return;
  }
  const name = keys[one.key] ?? '';
  const path = raw(name);
  const idOf = (header: string | undefined): string => {
    // In a suspended bucket only the answer to a delete marker names a version id.
    const isMarker = one.do === 'delete';
    if (model.versioning === '') expect(header).toBeUndefined();
    else if (model.versioning === 'Suspended') expect(header).toBe(isMarker ? 'null' : undefined);
    else expect(header).toMatch(/^[0-9a-f]{32}$/);
    return header ?? 'null';
  };
  if (one.do === 'delete') {
    const reply = await client.delete(path);
    expect([reply.status, reply.header('*-delete-marker')]).toEqual([
      204,
      model.versioning === '' ? undefined : 'true',
    ]);
    model.delete(name, idOf(reply.header('*-version-id')));
  } else if (one.do === 'delete version') {
    const known = model.of(name);
    const id = known[one.pick % Math.max(known.length, 1)]?.id ?? 'null';
    expect((await client.delete(`${path}?versionId=${id}`)).status).toBe(204);
    model.remove(name, id);
  } else {
    const from = keys[one.from] ?? '';
    const source = model.of(from)[0]?.body;
    if (one.do === 'copy') {
      const reply = await client.put(path, {
        headers: { '*-copy-source': raw(from), '*-metadata-directive': 'REPLACE' },
      });
      expect(reply.status).toBe(source === undefined ? 404 : 200);
      if (source !== undefined) model.add(name, { id: idOf(reply.header('*-version-id')), body: source });
    } else if (one.do === 'complete') {
      const uploadId = await createUpload(client, path);
      const parts = [await putPart(client, path, { uploadId, number: 3, body: one.body })];
      const reply = await complete(client, path, { uploadId, parts });
      expect(reply.status).toBe(200);
      model.add(name, { id: idOf(reply.header('*-version-id')), body: one.body });
    } else {
      const reply = await client.put(path, { body: one.body });
      expect(reply.status).toBe(200);
      model.add(name, { id: idOf(reply.header('*-version-id')), body: one.body });
    }
  }
}

async function compare(world: GatewayWorld, model: Model): Promise<void> {
  const { client } = world;
  const all = model.all();
  for (const name of keys) {
    const head = model.of(name)[0];
    const got = await client.get(raw(name));
    expect(got.status === 200 ? got.text : undefined).toBe(head?.body);
    for (const { id, body } of model.of(name)) {
      const old = await client.get(`${raw(name)}?versionId=${id}`);
      expect([old.status, old.status === 200 ? old.text : undefined]).toEqual(
        body === undefined ? [405, undefined] : [200, body],
      );
    }
  }
  const live = all.filter(({ version, isLatest }) => isLatest && version.body !== undefined);
  const listed = await client.get('/bucket?list-type=2');
  expect(listed.all('Key')).toEqual(live.map((each) => each.key));
  expect(listed.all('Size')).toEqual(
    live.map(({ version }) => String(Buffer.byteLength(version.body ?? ''))),
  );
  const versions = await client.get('/bucket?versions');
  expect(versions.all('Key')).toEqual(all.map((each) => each.key));
  expect(versions.all('VersionId')).toEqual(all.map(({ version }) => version.id));
  expect(versions.all('IsLatest')).toEqual(all.map(({ isLatest }) => String(isLatest)));
  expect(versions.all('DeleteMarker')).toHaveLength(
    all.filter(({ version }) => version.body === undefined).length,
  );
  const bodies = all.flatMap(({ version }) => (version.body === undefined ? [] : [version.body]));
  expect(await world.usage('bucket')).toEqual({
    bytes: bodies.reduce((sum, body) => sum + Buffer.byteLength(body), 0),
    objects: bodies.length,
  });
  await world.gc();
  const stored = await world.stored();
  // Empty contents store no extent.
  expect(stored.length).toBe(bodies.filter((body) => body !== '').length);
  expect((await world.owned('bucket')).filter((id) => stored.includes(id))).toEqual(stored);
}

describe.each(backends)('on %s', (backend) => {
  test('any history of a few keys is what the model says: contents, listings, usage and chunks', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async (steps) => {
        await using world = await openGateway({ backend });
        await world.client.put('/bucket');
        const model = new Model();
        for (const one of steps) await take(world, model, one);
        await compare(world, model);
      }),
      {
        numRuns: backend === 'memory' ? 150 : 30,
        ...(process.env['FC_SEED'] === undefined ? {} : { seed: Number(process.env['FC_SEED']) }),
      },
    );
  });
});
