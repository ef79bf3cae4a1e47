/** Random histories of locks against a small model: a protected version is never deleted, an unprotected one can be. @storage */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { backends } from '../support/gateway.ts';
import { complete, createUpload, deletion, putPart } from '../support/gateway-bodies.ts';
import {
  bypass,
  configuration,
  dayMs,
  defaultRule,
  heldUntil,
  type LockedWorld,
  legalHold,
  lockIn,
  type Mode,
  openLocked,
  retention,
} from '../support/locks.ts';

const paths = ['/bucket/a', '/bucket/b'];
const modes = ['GOVERNANCE', 'COMPLIANCE'] as const;

type Step =
  | {
      readonly do: 'put' | 'copy' | 'complete';
      readonly key: number;
      readonly mode: Mode | undefined;
      readonly days: number;
      readonly hold: boolean | undefined;
    }
  | { readonly do: 'delete'; readonly key: number }
  | {
      readonly do: 'remove' | 'remove many';
      readonly key: number;
      readonly pick: number;
      readonly bypass: boolean;
    }
  | {
      readonly do: 'retain';
      readonly key: number;
      readonly pick: number;
      readonly mode: Mode | undefined;
      readonly days: number;
      readonly bypass: boolean;
    }
  | { readonly do: 'hold'; readonly key: number; readonly pick: number; readonly on: boolean }
  | { readonly do: 'configure'; readonly mode: Mode | undefined; readonly days: number }
  | { readonly do: 'pass'; readonly hours: number };

const key = fc.nat(paths.length - 1);
const pick = fc.nat(4);
const days = fc.integer({ min: 1, max: 4 });
const mode = fc.constantFrom(undefined, ...modes);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom('put', 'put', 'copy', 'complete'),
      key,
      mode,
      days,
      hold: fc.constantFrom(undefined, true, false),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete'), key }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom('remove', 'remove many'),
      key,
      pick,
      bypass: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('retain'), key, pick, mode, days, bypass: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('hold'), key, pick, on: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('configure'), mode, days }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass'), hours: fc.integer({ min: -30, max: 60 }) }) },
) as fc.Arbitrary<Step>;

interface Version {
  readonly id: string;
  readonly marker: boolean;
  mode: Mode | undefined;
  until: number;
  hold: boolean | undefined;
}

class Model {
  /** The versions of each path, the newest first. */
  readonly versions: Version[][] = paths.map(() => []);
  fallback: { readonly mode: Mode; readonly days: number } | undefined;

  at(key: number, pick: number): Version | undefined {
    const all = this.versions[key] ?? [];
    return all[pick % Math.max(all.length, 1)];
  }
}

const retains = ({ mode, until }: Version, now: number): Mode | undefined => (until > now ? mode : undefined);

function isFree(version: Version, now: number, bypassed: boolean): boolean {
  if (version.hold === true) return false;
  const retained = retains(version, now);
  return retained === undefined || (bypassed && retained === 'GOVERNANCE');
}

function mayRetain(
  version: Version,
  wanted: Pick<Version, 'mode' | 'until'>,
  bypassed: boolean,
  now: number,
) {
  const retained = retains(version, now);
  if (retained === undefined || (retained === 'GOVERNANCE' && bypassed)) return true;
  return wanted.mode === retained && wanted.until >= version.until;
}

async function write(
  world: LockedWorld,
  model: Model,
  one: Extract<Step, { do: 'put' | 'copy' | 'complete' }>,
) {
  const { client, clock } = world;
  const path = paths[one.key] ?? '';
  const headers = {
    ...(one.mode === undefined ? {} : heldUntil(one.mode, world.inDays(one.days))),
    ...(one.hold === undefined ? {} : { '*-object-lock-legal-hold': one.hold ? 'ON' : 'OFF' }),
  };
  let answer = await client.put('/bucket/source', { body: 'content' });
  if (one.do === 'put') answer = await client.put(path, { body: 'content', headers });
  if (one.do === 'copy')
    answer = await client.put(path, { headers: { ...headers, '*-copy-source': '/bucket/source' } });
  if (one.do === 'complete') {
    const uploadId = await createUpload(client, path, { headers });
    const parts = [await putPart(client, path, { uploadId, number: 1, body: 'content' })];
    answer = await complete(client, path, { uploadId, parts });
  }
  expect(answer.status).toBe(200);
  const held = one.mode === undefined ? model.fallback : { mode: one.mode, days: one.days };
  model.versions[one.key]?.unshift({
    id: answer.header('*-version-id') ?? '',
    marker: false,
    mode: held?.mode,
    until: held === undefined ? 0 : clock.now() + held.days * dayMs,
    hold: one.hold,
  });
}

async function remove(
  world: LockedWorld,
  model: Model,
  one: Extract<Step, { do: 'remove' | 'remove many' }>,
) {
  const { client, clock } = world;
  const path = paths[one.key] ?? '';
  const version = model.at(one.key, one.pick);
  if (version === undefined) return;
  const headers = one.bypass ? bypass : {};
  const free = isFree(version, clock.now(), one.bypass);
  if (one.do === 'remove') {
    const answer = await client.delete(`${path}?versionId=${version.id}`, { headers });
    expect(answer.status).toBe(free ? 204 : 403);
  } else {
    const name = path.slice('/bucket/'.length);
    const body = deletion([`<Key>${name}</Key><VersionId>${version.id}</VersionId>`]);
    const answer = await client.post('/bucket?delete', { body, headers });
    expect(answer.all('Code')).toEqual(free ? [] : ['AccessDenied']);
  }
  if (free) model.versions[one.key] = (model.versions[one.key] ?? []).filter((each) => each !== version);
}

async function retain(world: LockedWorld, model: Model, one: Extract<Step, { do: 'retain' }>) {
  const version = model.at(one.key, one.pick);
  if (version === undefined) return;
  const until = one.mode === undefined ? 0 : world.inDays(one.days);
  const answer = await world.client.put(`${paths[one.key]}?retention&versionId=${version.id}`, {
    body: retention(one.mode, until),
    headers: one.bypass ? bypass : {},
  });
  const may = mayRetain(version, { mode: one.mode, until }, one.bypass, world.clock.now());
  expect(answer.status).toBe(version.marker ? 405 : may ? 200 : 403);
  if (!version.marker && may) Object.assign(version, { mode: one.mode, until });
}

async function take(world: LockedWorld, model: Model, one: Step): Promise<void> {
  const { client, clock } = world;
  switch (one.do) {
    case 'put':
    case 'copy':
    case 'complete':
      return write(world, model, one);
    case 'remove':
    case 'remove many':
      return remove(world, model, one);
    case 'retain':
      return retain(world, model, one);
    case 'delete': {
      const laid = await client.delete(paths[one.key] ?? '');
      expect([laid.status, laid.header('*-delete-marker')]).toEqual([204, 'true']);
      const id = laid.header('*-version-id') ?? '';
      model.versions[one.key]?.unshift({ id, marker: true, mode: undefined, until: 0, hold: undefined });
      return;
    }
    case 'hold': {
      const version = model.at(one.key, one.pick);
      if (version === undefined) return;
      const body = legalHold(one.on ? 'ON' : 'OFF');
      const answer = await client.put(`${paths[one.key]}?legal-hold&versionId=${version.id}`, { body });
      expect(answer.status).toBe(version.marker ? 405 : 200);
      if (!version.marker) version.hold = one.on;
      return;
    }
    case 'configure': {
      const rule = one.mode === undefined ? '' : defaultRule(one.mode, `<Days>${one.days}</Days>`);
      expect((await client.put('/bucket?object-lock', { body: configuration(rule) })).status).toBe(200);
      model.fallback = one.mode === undefined ? undefined : { mode: one.mode, days: one.days };
      return;
    }
    case 'pass':
      clock.jump(one.hours * 3_600_000);
  }
}

async function compare({ client }: LockedWorld, model: Model): Promise<void> {
  for (const [i, path] of paths.entries()) {
    const versions = model.versions[i] ?? [];
    const listed = await client.get('/bucket?versions', { query: { prefix: path.slice('/bucket/'.length) } });
    expect(listed.all('VersionId')).toEqual(versions.map(({ id }) => id));
    for (const { id, marker, mode: held, until, hold } of versions) {
      const got = await client.get(`${path}?versionId=${id}`);
      expect(got.status).toBe(marker ? 405 : 200);
      if (marker) continue;
      const date = held === undefined ? undefined : new Date(until).toISOString();
      const shown = hold === undefined ? undefined : hold ? 'ON' : 'OFF';
      expect([got.text, ...lockIn(got)]).toEqual(['content', held, date, shown]);
    }
  }
}

describe.each(backends)('on %s', (backend) => {
  test('any history of writes, deletes, retentions, holds and clock jumps is what the model says', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
        await using world = await openLocked(backend);
        const model = new Model();
        for (const one of steps) await take(world, model, one);
        await compare(world, model);
        // After this jump everything in the deletion queue is due.
        world.clock.jump(100 * dayMs);
        await world.gc();
        await compare(world, model);
        expect(await world.stored()).toEqual(await world.owned('bucket'));
      }),
      {
        numRuns: backend === 'memory' ? 120 : 25,
        ...(process.env['FC_SEED'] === undefined ? {} : { seed: Number(process.env['FC_SEED']) }),
      },
    );
  });
});
