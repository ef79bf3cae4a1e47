/** The answer of a write when another one commits first, by the kinds of both (docs/gaps.md, 7.1). @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import { ambush } from '../support/ambush.ts';
import { extentsOn, openPair } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { alice, backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, md5, putPart, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer, Ask } from '../support/gateway-client.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';
import { virtualClock } from '../support/virtual-clock.ts';

/** Prepares the write, and returns the function that sends it. */
type Write = (
  world: GatewayWorld,
  body: string,
  headers?: NonNullable<Ask['headers']>,
) => Promise<() => Promise<Answer>>;

const key = '/bucket/key';
const never = new AbortController().signal;

const put = ({ client }: GatewayWorld, body: string, headers: NonNullable<Ask['headers']> = {}) =>
  client.put(key, { body, headers });

const putObject: Write = async (world, body, headers) => () => put(world, body, headers);

const postObject: Write = async ({ anonymous }, body) => {
  const conditions = [{ bucket: 'bucket' }, { key: 'key' }, { success_action_status: '200' }];
  const fields = { key: 'key', success_action_status: '200', ...signForm(alice, { conditions }) };
  const sent = encodeForm([...fieldsOf(fields), fileOf(body)]);
  return () => anonymous.post('/bucket', { body: sent, headers: multipart() });
};

const copyObject: Write = async ({ client }, body, headers = {}) => {
  const source = `/sources/${md5(body)}`;
  await client.put(source, { body });
  return () => client.put(key, { headers: { '*-copy-source': source, ...headers } });
};

const completeUpload: Write = async ({ client }, body, headers = {}) => {
  const uploadId = await createUpload(client, key);
  const part = await putPart(client, key, { uploadId, number: 1, body });
  return () => complete(client, key, { uploadId, parts: [part], ask: { headers } });
};

const writes: Readonly<Record<string, Write>> = {
  PutObject: putObject,
  PostObject: postObject,
  CopyObject: copyObject,
  CompleteMultipartUpload: completeUpload,
};

const etagOf = (answer: Answer): string | undefined =>
  (answer.one('ETag') ?? answer.header('etag'))?.replaceAll('"', '');
const readKey = async ({ client }: GatewayWorld): Promise<readonly [string, string | undefined]> => {
  const found = await client.get(key);
  return [found.text, etagOf(found)];
};

/** Marks the store as distant, so that heads are read before the bodies of their requests. */
const distant = (context: Context): Context => ({
  ...context,
  metadata: faulty(context.metadata, { isDistant: true }),
});

const places = backends.flatMap((backend) => [
  { backend, isDistant: false },
  ...(backend === 'memory' || backend === 'embedded+file' ? [{ backend, isDistant: true }] : []),
]);

async function openRace(
  { backend, isDistant }: (typeof places)[number],
  settings: Readonly<Record<string, string>> = {},
) {
  const { rightBefore, wrap } = ambush();
  const around = (context: Context): Context => wrap(isDistant ? distant(context) : context);
  const world = await openGateway({ backend, wrap: around, settings });
  await world.client.put('/bucket');
  await world.client.put('/sources');
  return { world, rightBefore };
}

/** Expects that only extents that rows name are stored, and that the counters agree. */
async function expectTidy(world: GatewayWorld, size: number): Promise<void> {
  expect(await world.usage('bucket')).toEqual({ bytes: size, objects: 1 });
  await world.gc();
  const named = [...(await world.owned('bucket')), ...(await world.owned('sources'))];
  expect(await world.stored()).toEqual(named.sort());
}

/** Body of the winner; those of former objects and losers are other texts. */
const winning = 'the winner';
const formerTag = `"${md5('former')}"`;

/** Writes that the former object decided, and what else changes its row. */
const others: Readonly<Record<string, (world: GatewayWorld) => Promise<() => Promise<Answer>>>> = {
  'PutObject with If-Match': (world) => putObject(world, winning, { 'if-match': formerTag }),
  'PutObject with If-None-Match': (world) => putObject(world, winning, { 'if-none-match': '"other"' }),
  'PutObject with If-Unmodified-Since': (world) =>
    putObject(world, winning, { 'if-unmodified-since': new Date(Date.now() + 60_000).toUTCString() }),
  'CopyObject with If-Match': (world) => copyObject(world, winning, { 'if-match': formerTag }),
  'CompleteMultipartUpload with If-Match': (world) =>
    completeUpload(world, winning, { 'if-match': formerTag }),
  'CopyObject of the key onto itself':
    async ({ client }) =>
    () =>
      client.put(key, { headers: { '*-copy-source': key, '*-metadata-directive': 'REPLACE' } }),
  DeleteObject:
    async ({ client }) =>
    () =>
      client.delete(key),
  'DeleteObject of the null version':
    async ({ client }) =>
    () =>
      client.delete(`${key}?versionId=null`),
  PutObjectTagging:
    async ({ client }) =>
    () =>
      client.put(`${key}?tagging`, {
        body: '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>',
      }),
};

describe.each(places)('on $backend, heads read ahead: $isDistant', (place) => {
  for (const [loser, lose] of Object.entries(writes)) {
    test(`${loser} that loses to an unconditional write is answered with that write`, async () => {
      const { world, rightBefore } = await openRace(place);
      await using _ = world;
      for (const former of [undefined, 'former'])
        for (const [winner, win] of Object.entries(writes)) {
          await world.client.delete(key);
          if (former !== undefined) await put(world, former);
          const [winsNow, losesNow] = [await win(world, winning), await lose(world, 'the loser')];
          rightBefore('objects', winsNow);
          const answer = await losesNow();
          const [text, etag] = await readKey(world);
          expect([answer.status, etagOf(answer), text], winner).toEqual([200, etag, winning]);
        }
      await expectTidy(world, winning.length);
    });

    test(`${loser} that loses to a conditional write, a copy of the key onto itself, a DELETE or a change of the row commits again`, async () => {
      const { world, rightBefore } = await openRace(place);
      await using _ = world;
      for (const [winner, win] of Object.entries(others)) {
        await put(world, 'former');
        const [winsNow, losesNow] = [await win(world), await lose(world, 'the loser')];
        let won: Answer | undefined;
        rightBefore('objects', async () => {
          won = await winsNow();
        });
        const answer = await losesNow();
        const [text, etag] = await readKey(world);
        expect([won !== undefined && won.status < 300, answer.status, etagOf(answer), text], winner).toEqual([
          true,
          200,
          etag,
          'the loser',
        ]);
      }
      await expectTidy(world, 'the loser'.length);
    });

    test(`with SVC_PUT_RACE=retry ${loser} commits again after every lost race`, async () => {
      const { world, rightBefore } = await openRace(place, { SVC_PUT_RACE: 'retry' });
      await using _ = world;
      for (const [winner, win] of Object.entries(writes)) {
        const [winsNow, losesNow] = [await win(world, winning), await lose(world, 'the loser')];
        rightBefore('objects', winsNow);
        const answer = await losesNow();
        const [text, etag] = await readKey(world);
        expect([answer.status, etagOf(answer), text], winner).toEqual([200, etag, 'the loser']);
      }
      await expectTidy(world, 'the loser'.length);
    });
  }

  test('PutObject with If-None-Match: * that finds nothing keeps a later loser from being placed before it', async () => {
    const { world, rightBefore } = await openRace(place);
    await using _ = world;
    rightBefore('objects', () => put(world, winning, { 'if-none-match': '*' }));
    expect(etagOf(await put(world, 'the loser'))).toBe(md5('the loser'));
    expect((await readKey(world))[0]).toBe('the loser');
  });

  test('PutObject that loses to a DELETE and a PutObject after it is answered with the latter', async () => {
    const { world, rightBefore } = await openRace(place);
    await using _ = world;
    await put(world, 'former');
    rightBefore('objects', async () => {
      await put(world, 'between', { 'if-match': formerTag });
      await world.client.delete(key);
      await put(world, winning);
    });
    expect(etagOf(await put(world, 'the loser'))).toBe(md5(winning));
    expect((await readKey(world))[0]).toBe(winning);
  });

  test('PutObject that loses to a change of versioning keeps its own version', async () => {
    const { world, rightBefore } = await openRace(place);
    await using _ = world;
    await put(world, 'former');
    rightBefore('objects', async () => {
      await setVersioning(world.client, 'bucket', 'Enabled');
      await put(world, 'between');
    });
    expect(etagOf(await put(world, 'the loser'))).toBe(md5('the loser'));
    const versions = await world.client.get('/bucket?versions');
    expect(versions.all('ETag').map((etag) => etag.replaceAll('"', ''))).toEqual(
      ['the loser', 'between', 'former'].map(md5),
    );
  });
});

test('PutObject that meets a mover of the head commits again', async () => {
  const { rightBefore, wrap } = ambush();
  const { world, clock, drain } = await openPair('memory', { wrap });
  await using _ = world;
  await world.client.put('/bucket');
  await put(world, 'former');
  await drain();
  let moved: unknown;
  rightBefore('objects', async () => {
    const unit = rebalance(world.context);
    for (let turn = 0; turn < 20 && (await extentsOn(world, 'b')) < 2; turn += 1) {
      await unit(never);
      await clock.advance(100);
    }
    moved = [await extentsOn(world, 'b'), (await readKey(world))[0]];
  });
  expect(etagOf(await put(world, 'the loser'))).toBe(md5('the loser'));
  // The copy of the former object, and the bytes that the loser has stored.
  expect(moved).toEqual([2, 'former']);
  expect((await readKey(world))[0]).toBe('the loser');
});

test('PutObject whose body took longer than a second reads the head again before it commits', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock, wrap: distant });
  await world.client.put('/bucket');
  await world.client.get('/bucket');
  const slow = await world.client.put(key, {
    body: 'slow',
    arriving: async function* (body) {
      await put(world, 'fast');
      await clock.advance(1_100);
      yield body;
    },
  });
  expect([slow.status, etagOf(slow)]).toEqual([200, md5('slow')]);
  expect((await readKey(world))[0]).toBe('slow');
});

test('PutObject that loses to 64 conditional writes one after another is refused with SlowDown and stores nothing', async () => {
  const { world, rightBefore } = await openRace({ backend: 'memory', isDistant: false });
  await using _ = world;
  let writes = 0;
  const winAgain = async (): Promise<void> => {
    writes += 1;
    const former = etagOf(await world.client.head(key));
    await put(world, `winner ${writes}`, { 'if-match': `"${former}"` });
    rightBefore('objects', winAgain);
  };
  await put(world, 'former');
  rightBefore('objects', winAgain);
  const refused = await put(world, 'the loser');
  rightBefore('', async () => {});
  expect([refused.status, refused.one('Code'), writes]).toEqual([503, 'SlowDown', 64]);
  const last = `winner ${writes}`;
  expect((await readKey(world))[0]).toBe(last);
  await expectTidy(world, last.length);
});
