/** A request whose process dies at any call of a port leaves the old state or the new one, and leaks nothing. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { completeSpec, elements, pathOf } from '../support/load-client.ts';
import { bytesOf, md5Hex, seeded } from '../support/load-model.ts';
import type { RequestSpec } from '../support/sign.ts';
import { untilDeath } from './death.ts';
import { type Answer, type FrontDoor, frontDoor, type Process, standingCall } from './front-door.ts';

type Versioning = '' | 'Enabled' | 'Suspended';
interface Given {
  readonly uploadId?: string;
  readonly etags?: readonly string[];
  readonly versionId?: string;
}
interface Scenario {
  readonly versioning?: Versioning;
  readonly before?: (client: Process) => Promise<Given>;
  readonly request: (given: Given) => RequestSpec;
}

async function ok(client: Process, spec: RequestSpec): Promise<Answer> {
  const answer = await client.send(spec);
  if (answer.status >= 300) throw new Error(`${spec.method} ${spec.path}: ${answer.status} ${answer.text}`);
  return answer;
}

const path = pathOf('bucket', 'key');
const put = (body: string | Uint8Array, to = path): RequestSpec => ({ method: 'PUT', path: to, body });
const setVersioning = (status: string): RequestSpec => ({
  method: 'PUT',
  path: pathOf('bucket'),
  query: { versioning: '' },
  body: `<VersioningConfiguration><Status>${status}</Status></VersioningConfiguration>`,
});

const withMd5 = (body: string): Pick<RequestSpec, 'body' | 'headers'> => ({
  body,
  headers: { 'content-md5': Buffer.from(md5Hex(Buffer.from(body)), 'hex').toString('base64') },
});

const exists = async (client: Process): Promise<Given> => {
  await ok(client, put('zero'));
  return {};
};
const hasTwo = async (client: Process): Promise<Given> => {
  const { headers } = await ok(client, put('zero'));
  await ok(client, put('one'));
  return { versionId: headers.get('x-amz-version-id') ?? '' };
};
const hasNullBelow = async (client: Process): Promise<Given> => {
  await ok(client, put('zero'));
  await ok(client, setVersioning('Enabled'));
  await ok(client, put('one'));
  await ok(client, setVersioning('Suspended'));
  return {};
};

async function openUpload(client: Process, bodies: readonly (string | Uint8Array)[]): Promise<Given> {
  const created = await ok(client, { method: 'POST', path, query: { uploads: '' } });
  const [uploadId = ''] = elements(created.text, 'UploadId');
  const etags: string[] = [];
  for (const body of bodies) {
    const query = { uploadId, partNumber: String(etags.length + 1) };
    etags.push((await ok(client, { method: 'PUT', path, query, body })).headers.get('etag') ?? '');
  }
  return { uploadId, etags };
}

const five = bytesOf({ seed: 5, size: 5 * 1024 * 1024 });
const nine = bytesOf({ seed: 9, size: 9 * 1024 * 1024 });
const complete = ({ uploadId = '', etags = [] }: Given): RequestSpec =>
  completeSpec({ bucket: 'bucket', key: 'key', uploadId }, etags);
const part = ({ uploadId = '' }: Given, body: string | Uint8Array): RequestSpec => ({
  method: 'PUT',
  path,
  query: { uploadId, partNumber: '1' },
  body,
});

const scenarios: Readonly<Record<string, Scenario>> = {
  'a first PUT': { request: () => put('one') },
  'a PUT of several chunks': { request: () => put(nine) },
  'a PUT in signed chunks': { request: () => ({ ...put('one'), payload: 'streaming-trailer' }) },
  'a PUT of nothing': { request: () => put('') },
  'a conditional PUT': { request: () => ({ ...put('one'), headers: { 'if-none-match': '*' } }) },
  'an overwrite': { before: exists, request: () => put('one') },
  'a versioned PUT': { versioning: 'Enabled', before: exists, request: () => put('one') },
  'a PUT over a null version': { versioning: 'Suspended', before: exists, request: () => put('one') },
  'a PUT over a null version in the history': { before: hasNullBelow, request: () => put('two') },
  'a copy over an object': {
    before: async (client) => {
      await ok(client, put('source', pathOf('bucket', 'source')));
      return exists(client);
    },
    request: () => ({ method: 'PUT', path, headers: { 'x-amz-copy-source': '/bucket/source' } }),
  },
  'a DELETE': { before: exists, request: () => ({ method: 'DELETE', path }) },
  'a delete marker': { versioning: 'Enabled', before: exists, request: () => ({ method: 'DELETE', path }) },
  'a delete marker over a null version in the history': {
    before: hasNullBelow,
    request: () => ({ method: 'DELETE', path }),
  },
  'a delete of an old version': {
    versioning: 'Enabled',
    before: hasTwo,
    request: ({ versionId = '' }) => ({ method: 'DELETE', path, query: { versionId } }),
  },
  'a delete of the newest version': {
    versioning: 'Enabled',
    before: async (client) => {
      await ok(client, put('zero'));
      return { versionId: (await ok(client, put('one'))).headers.get('x-amz-version-id') ?? '' };
    },
    request: ({ versionId = '' }) => ({ method: 'DELETE', path, query: { versionId } }),
  },
  'a DeleteObjects': {
    before: exists,
    request: () => ({
      method: 'POST',
      path: pathOf('bucket'),
      query: { delete: '' },
      ...withMd5('<Delete><Object><Key>key</Key></Object></Delete>'),
    }),
  },
  'a CreateMultipartUpload': { request: () => ({ method: 'POST', path, query: { uploads: '' } }) },
  'an UploadPart': { before: (client) => openUpload(client, []), request: (given) => part(given, 'one') },
  'an UploadPart of several chunks over another': {
    before: (client) => openUpload(client, ['zero']),
    request: (given) => part(given, five),
  },
  'an UploadPartCopy': {
    before: async (client) => {
      await ok(client, put('source', pathOf('bucket', 'source')));
      return openUpload(client, ['zero']);
    },
    request: ({ uploadId = '' }) => ({
      method: 'PUT',
      path,
      query: { uploadId, partNumber: '1' },
      headers: { 'x-amz-copy-source': '/bucket/source' },
    }),
  },
  'a CompleteMultipartUpload over an object': {
    before: async (client) => {
      await exists(client);
      return openUpload(client, ['one']);
    },
    request: complete,
  },
  'a versioned CompleteMultipartUpload, with parts that are not listed': {
    versioning: 'Enabled',
    before: async (client) => {
      await exists(client);
      const { uploadId = '', etags = [] } = await openUpload(client, ['one', 'two']);
      return { uploadId, etags: etags.slice(0, 1) };
    },
    request: complete,
  },
  'an AbortMultipartUpload': {
    before: (client) => openUpload(client, ['one', 'two']),
    request: ({ uploadId = '' }) => ({ method: 'DELETE', path, query: { uploadId } }),
  },
  'a versioning flip': { before: exists, request: () => setVersioning('Enabled') },
  'a DeleteBucket with an open upload': {
    before: (client) => openUpload(client, ['one', 'two']),
    request: () => ({ method: 'DELETE', path: pathOf('bucket') }),
  },
  'a DeleteBucket of one that is not empty': {
    before: exists,
    request: () => ({ method: 'DELETE', path: pathOf('bucket') }),
  },
  'a CreateBucket': { request: () => ({ method: 'PUT', path: pathOf('other') }) },
};

async function worldOf({ versioning = '', before }: Scenario): Promise<{ world: FrontDoor; given: Given }> {
  const world = frontDoor();
  const client = world.process();
  await ok(client, { method: 'PUT', path: pathOf('bucket') });
  if (versioning !== '') await ok(client, setVersioning(versioning));
  return { world, given: (await before?.(client)) ?? {} };
}

/** Everything that a client can see, without the values that differ from run to run. */
async function visible(client: Process): Promise<string> {
  const seen: string[] = [];
  for (const spec of [
    { path },
    { path: pathOf('bucket'), query: { 'list-type': '2' } },
    { path: pathOf('bucket'), query: { versions: '' } },
    { path: pathOf('bucket'), query: { versioning: '' } },
    { path: '/' },
  ]) {
    const { status, text } = await client.send(spec);
    const names = ['Key', 'ETag', 'Size', 'IsLatest', 'Status', 'Name', 'Code'];
    const isXml = text.startsWith('<');
    seen.push(
      `${status} ${isXml ? names.map((name) => elements(text, name).join()).join(' ') : text.slice(0, 50)}`,
    );
  }
  return seen.join('\n');
}

async function endsOf(scenario: Scenario): Promise<readonly [old: string, young: string]> {
  const { world, given } = await worldOf(scenario);
  const client = world.process();
  const before = await visible(client);
  const answer = await client.send(scenario.request(given));
  expect(answer.status, answer.text).not.toBe(500);
  return [before, await visible(client)];
}

describe('killed at any call of a port', () => {
  for (const [name, scenario] of Object.entries(scenarios)) {
    test(name, async () => {
      const ends = await endsOf(scenario);
      let calls = 0;
      for (const when of ['before', 'after'] as const) {
        for (let call = 1, lived = false; !lived; call += 1) {
          const { world, given } = await worldOf(scenario);
          const process = world.process({ call, when });
          await untilDeath(process, process.send(scenario.request(given)));
          lived = !process.hasDied();
          const at = `${when} call ${call}`;
          // A bucket that is being deleted looks unchanged to clients until it is removed.
          expect(ends, at).toContain(await visible(world.process()));
          await world.cleanUp();
          expect(ends, `${at}, cleaned up`).toContain(await visible(world.process()));
          expect(await world.faults(), at).toEqual([]);
          calls = Math.max(calls, call);
        }
      }
      expect(calls).toBeGreaterThan(1);
    });
  }
});

/** The ways in which one call goes wrong while the process lives on. */
const troubles = {
  'fails before it takes effect': async () => {
    throw new Error('no answer');
  },
  'fails after it took effect': async (act: () => Promise<unknown>) => {
    await act();
    throw new Error('no answer');
  },
};

/** Those without a body of 9 MiB, whose many calls are alike. */
const short = Object.entries(scenarios).filter(([name]) => name !== 'a PUT of several chunks');
/** DeleteObjects answers 200 for keys that failed. */
const isDone = ({ status, text }: Answer): boolean => status < 300 && !text.includes('<Error>');

describe('where any call of a port', () => {
  for (const [trouble, instead] of Object.entries(troubles))
    describe(trouble, () => {
      for (const [name, scenario] of short)
        test(name, async () => {
          const [old, young] = await endsOf(scenario);
          for (let call = 1, isOver = false; !isOver; call += 1) {
            const { world, given } = await worldOf(scenario);
            const process = world.process(undefined, undefined, { call, instead });
            const answer = await process.send(scenario.request(given));
            isOver = process.calls() < call;
            const at = `call ${call}: ${answer.status} ${answer.text}`;
            const ends = isDone(answer) ? [young] : [old, young];
            expect(ends, at).toContain(await visible(world.process()));
            await world.cleanUp();
            expect(ends, `${at}, cleaned up`).toContain(await visible(world.process()));
            expect(await world.faults(), at).toEqual([]);
          }
        });
    });

  describe('is paused when it has taken effect, until its intents are swept', () => {
    for (const [name, scenario] of short)
      test(name, async () => {
        const [old, young] = await endsOf(scenario);
        for (let call = 1, isOver = false; !isOver; call += 1) {
          const { world, given } = await worldOf(scenario);
          const { disturbed, reached, goOn } = standingCall(call);
          const process = world.process(undefined, undefined, disturbed);
          const sent = process.send(scenario.request(given));
          await Promise.race([reached, sent]);
          await world.cleanUp();
          const between = await visible(world.process());
          goOn();
          const answer = await sent;
          isOver = process.calls() < call;
          const at = `call ${call}: ${answer.status} ${answer.text}`;
          expect([old, young], at).toContain(between);
          const seen = await visible(world.process());
          expect(isDone(answer) ? [young] : [old, young], at).toContain(seen);
          await world.cleanUp();
          expect(await visible(world.process()), `${at}, cleaned up`).toBe(seen);
          expect(await world.faults(), at).toEqual([]);
        }
      });
  });
});

const someBody = fc.oneof(
  fc.constantFrom('', 'a', 'bb', 'ccc'),
  fc.nat(1000).map((n) => 'x'.repeat(n)),
);
const step = fc.record({
  kind: fc.constantFrom(
    ...(['put', 'put', 'put', 'put', 'copy', 'copy', 'delete', 'delete-version', 'delete-version'] as const),
    ...(['part', 'part', 'part', 'complete', 'complete', 'abort', 'flip', 'delete-objects'] as const),
    'delete-bucket' as const,
  ),
  key: fc.constantFrom('a', 'b'),
  other: fc.constantFrom('a', 'b'),
  nth: fc.nat(7),
  body: someBody,
  kill: fc.option(
    fc.record({
      call: fc.integer({ min: 1, max: 24 }),
      when: fc.constantFrom('before' as const, 'after' as const),
    }),
  ),
  together: fc.boolean(),
  delays: fc.nat(1_000_000),
});
type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never;

/** The ids that a client needs later to name versions and parts. */
interface Memory {
  readonly versions: { readonly key: string; readonly id: string }[];
  readonly uploads: Map<string, { readonly uploadId: string; readonly etags: Map<number, string> }>;
}

async function requestOf(client: Process, memory: Memory, each: Step): Promise<RequestSpec | undefined> {
  const { kind, key, other, nth, body } = each;
  const to = pathOf('bucket', key);
  const version = memory.versions[nth % Math.max(memory.versions.length, 1)];
  if (kind === 'put') return put(body, to);
  if (kind === 'copy')
    return { method: 'PUT', path: to, headers: { 'x-amz-copy-source': pathOf('bucket', other) } };
  if (kind === 'delete') return { method: 'DELETE', path: to };
  if (kind === 'flip') return setVersioning(nth % 2 === 0 ? 'Enabled' : 'Suspended');
  if (kind === 'delete-bucket') return { method: 'DELETE', path: pathOf('bucket') };
  if (kind === 'delete-version')
    return (
      version && { method: 'DELETE', path: pathOf('bucket', version.key), query: { versionId: version.id } }
    );
  if (kind === 'delete-objects') {
    const named = [key, other].map((name) => `<Object><Key>${name}</Key></Object>`).join('');
    return {
      method: 'POST',
      path: pathOf('bucket'),
      query: { delete: '' },
      body: `<Delete>${named}</Delete>`,
    };
  }
  let upload = memory.uploads.get(key);
  if (upload === undefined) {
    const created = await client.send({ method: 'POST', path: to, query: { uploads: '' } });
    const [uploadId] = elements(created.text, 'UploadId');
    if (uploadId === undefined) return undefined;
    upload = { uploadId, etags: new Map() };
    memory.uploads.set(key, upload);
  }
  const { uploadId, etags } = upload;
  if (kind === 'part')
    return { method: 'PUT', path: to, query: { uploadId, partNumber: String((nth % 3) + 1) }, body };
  if (nth > 4) memory.uploads.delete(key);
  if (kind === 'abort') return { method: 'DELETE', path: to, query: { uploadId } };
  const [number, etag] = [...etags][0] ?? [1, '"none"'];
  const list = `<CompleteMultipartUpload><Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag></Part></CompleteMultipartUpload>`;
  return { method: 'POST', path: to, query: { uploadId }, body: list };
}

function remember(memory: Memory, each: Step, spec: RequestSpec, answer: Answer): void {
  const id = answer.headers.get('x-amz-version-id');
  if (answer.status < 300 && id !== null) memory.versions.push({ key: each.key, id });
  const { partNumber, uploadId } = (spec.query ?? {}) as Record<string, string>;
  const upload = memory.uploads.get(each.key);
  if (partNumber !== undefined && upload?.uploadId === uploadId && answer.status === 200)
    upload?.etags.set(Number(partNumber), answer.headers.get('etag') ?? '');
}

/** Expects that every listed object can be read and has the listed size. */
async function readAll(client: Process): Promise<void> {
  const { status, text } = await client.send({ path: pathOf('bucket'), query: { versions: '' } });
  if (status === 404) return;
  for (const xml of elements(text, 'Version')) {
    const [key = '', versionId = '', size = ''] = ['Key', 'VersionId', 'Size'].map(
      (name) => elements(xml, name)[0],
    );
    const answer = await client.send({ path: pathOf('bucket', key), query: { versionId } });
    expect(`${answer.status} ${answer.text.length}`, `${key} ${versionId}`).toBe(`200 ${size}`);
  }
}

/** More for a longer run: `SIMULATION_RUNS=5000`; `SIMULATION_SEED` repeats one. */
const runs = Number(process.env['SIMULATION_RUNS'] ?? 150);
const seed = process.env['SIMULATION_SEED'];

const tally: Record<string, number> = {};

test(
  'no history of concurrent and interrupted requests loses or leaks anything',
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 40, size: 'max' }), async (steps) => {
        const world = frontDoor();
        const living = world.process();
        const memory: Memory = { versions: [], uploads: new Map() };
        await ok(living, { method: 'PUT', path: pathOf('bucket') });
        const failures: string[] = [];
        let running: Promise<void>[] = [];
        for (const each of steps) {
          const random = seeded(each.delays);
          const process = world.process(each.kill ?? undefined, () => Math.floor(random() * 4));
          const spec = await requestOf(living, memory, each);
          if (spec === undefined) continue;
          const sent = process.send(spec).then((answer) => {
            if (answer.status === 500) failures.push(`${each.kind}: ${answer.text}`);
            tally[`${each.kind} ${answer.status}`] = (tally[`${each.kind} ${answer.status}`] ?? 0) + 1;
            remember(memory, each, spec, answer);
          });
          running.push(untilDeath(process, sent));
          if (each.together) continue;
          await Promise.all(running);
          running = [];
        }
        await Promise.all(running);
        await world.cleanUp();
        expect([...failures, ...(await world.faults())]).toEqual([]);
        await readAll(world.process());
      }),
      { numRuns: runs, ...(seed === undefined ? {} : { seed: Number(seed) }) },
    );
    // The histories are meaningful only if every kind of request also succeeds.
    for (const kind of ['put', 'copy', 'part', 'complete', 'flip', 'delete-objects'])
      expect(tally[`${kind} 200`], JSON.stringify(tally)).toBeGreaterThan(0);
  },
  300_000 + runs * 200,
);
