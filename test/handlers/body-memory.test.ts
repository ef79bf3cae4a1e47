/** Bodies that are read whole take memory from a common budget, which is a share of `SVC_MEMORY_MAX`. */

import { expect, test } from 'vitest';
import { type MemoryHolder, SharedMemory, sharedBudget } from '../../src/base/shared-budget.ts';
import type { Context } from '../../src/context.ts';
import { policyOf } from '../support/access.ts';
import { alice, bob, openGateway } from '../support/gateway.ts';
import { deletion } from '../support/gateway-bodies.ts';
import type { Answer, Ask } from '../support/gateway-client.ts';
import { holdingAfter } from '../support/held-body.ts';
import { heldBytes } from '../support/held-bytes.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';

const MiB = 1024 * 1024;
const ceiling = 8 * MiB;
const bodyBytes = 3 * MiB;

/** A deletion of a missing key, padded with blanks. */
const body = new TextEncoder().encode(deletion(['none']).padEnd(bodyBytes));

async function watchedGateway() {
  const byHolder = new Map<string, number>();
  const of = (holder: MemoryHolder): number => byHolder.get(JSON.stringify(holder)) ?? 0;
  const held = { now: 0, most: 0, of };
  const count = (bytes: number, { account, isAnonymous }: MemoryHolder): void => {
    held.now += bytes;
    held.most = Math.max(held.most, held.now);
    byHolder.set(JSON.stringify({ account, isAnonymous }), of({ account, isAnonymous }) + bytes);
  };
  const wrap = (context: Context): Context => ({
    ...context,
    bodyMemory: {
      take(bytes, holder) {
        if (!context.bodyMemory.take(bytes, holder)) return false;
        count(bytes, holder);
        return true;
      },
      give(bytes, holder) {
        count(-bytes, holder);
        context.bodyMemory.give(bytes, holder);
      },
    },
  });
  const world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' }, wrap });
  await world.client.put('/bucket');
  return { world, held };
}

/** Sends all pieces but the last one immediately, and the last one when `last` resolves. */
const slowly = (last: Promise<void>) =>
  async function* arriving(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
    const step = 256 * 1024;
    for (let at = 0; at < bytes.length; at += step) {
      if (at + step >= bytes.length) await last;
      yield bytes.subarray(at, at + step);
    }
  };

test('many slow bodies stay within the memory limit, and further ones get SlowDown', async () => {
  const { world, held } = await watchedGateway();
  await using _ = world;
  const { client } = world;
  const gate = Promise.withResolvers<void>();
  const sent = Array.from({ length: 12 }, () =>
    client.post('/bucket?delete', { body, arriving: slowly(gate.promise) }),
  );
  // Refused requests are answered before the gate opens; at most two of the others fit.
  const early = await Promise.race(sent);
  expect([early.status, early.code]).toEqual([503, 'SlowDown']);
  expect((await client.put('/bucket/key', { body: 'objects are not held up by them' })).status).toBe(200);
  gate.resolve();
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 503).length).toBeGreaterThanOrEqual(10);
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
  expect(held.most).toBeLessThanOrEqual(ceiling);
  expect(held.now).toBe(0);
});

test('a body releases its memory, whether it was accepted or refused', async () => {
  const { world, held } = await watchedGateway();
  await using _ = world;
  const { client } = world;
  // Together these bodies are larger than the ceiling.
  for (let turn = 0; turn < 2; turn++) {
    expect((await client.post('/bucket?delete', { body })).status).toBe(200);
    const torn = await client.post('/bucket?delete', { body, arriving: async function* () {} });
    expect(torn.code).toBe('IncompleteBody');
    const malformed = await client.post('/bucket?delete', { body: '<Delete>'.padEnd(bodyBytes) });
    expect(malformed.code).toBe('MalformedXML');
  }
  expect([held.now, held.most]).toEqual([0, bodyBytes]);
});

test('slow bodies of one account leave memory for those of others', async () => {
  await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
  await world.client.put('/bucket');
  await world.bob.put('/of-bob');
  const gate = Promise.withResolvers<void>();
  const small = new TextEncoder().encode(deletion(['none']).padEnd(MiB));
  const send = () => world.client.post('/bucket?delete', { body: small, arriving: slowly(gate.promise) });
  const sent = Array.from({ length: 12 }, send);
  // Refused requests are answered before the gate opens.
  const early = await Promise.race(sent);
  expect([early.status, early.code]).toEqual([503, 'SlowDown']);
  const other = await world.bob.post('/of-bob?delete', { body: small });
  expect([other.status, other.code]).toEqual([200, '']);
  gate.resolve();
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
  // All of it is free again.
  const whole = await world.client.post('/bucket?delete', {
    body: new TextEncoder().encode(deletion(['none']).padEnd(5 * MiB)),
  });
  expect(whole.code).not.toBe('SlowDown');
  expect((world.context.bodyMemory as unknown as { usedBytes: number }).usedBytes).toBe(0);
});

test('the memory of parts: a bucket with one may not have the last quarter, and any other bucket may have its first one', () => {
  const memory = sharedBudget(16 * MiB);
  const take = (bucket: string) => memory.take(5 * MiB, bucket);
  expect(['a', 'a', 'a', 'b', 'c'].map(take)).toEqual([true, true, false, true, false]);
  memory.give(5 * MiB, 'a');
  expect(['a', 'c'].map(take)).toEqual([false, true]);
});

const padded = (bytes: number) => new TextEncoder().encode(deletion(['none']).padEnd(bytes));

/** Requests whose bodies are held back until `release`. */
function holdRequests() {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const pending: Promise<unknown>[] = [];
  return {
    release,
    /** @param early the number of bytes that arrive immediately; by default all but the last one */
    send(send: (held: Pick<Ask, 'arriving'>) => Promise<Answer>, early = -1): Promise<Answer> {
      const { promise: held, resolve } = Promise.withResolvers<void>();
      const answer = send({ arriving: holdingAfter(early, released, resolve) });
      pending.push(Promise.race([held, answer]));
      return answer;
    },
    /** Resolves when the gateway has answered each request, or waits for the rest of its body. */
    settled: () => Promise.all(pending),
  };
}

const openToAll = policyOf({ Action: 's3:DeleteObject', Resource: 'arn:aws:s3:::bucket/*' });

test('slow bodies of anonymous callers leave memory to the account of the bucket', async () => {
  await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
  const { client, anonymous } = world;
  await client.put('/bucket');
  expect((await client.put('/bucket?policy', { body: openToAll })).status).toBe(204);
  const requests = holdRequests();
  const slow = [];
  // Ever smaller ones, so that they fill what is left.
  for (const bytes of [300 * 1024, 30 * 1024, 3 * 1024]) {
    for (let at = 0; at < 40; at += 1)
      slow.push(requests.send((held) => anonymous.post('/bucket?delete', { body: padded(bytes), ...held })));
    await requests.settled();
  }
  expect((await Promise.race(slow)).code).toBe('SlowDown');
  const own = await client.post('/bucket?delete', { body: padded(2 * MiB) });
  expect([own.status, own.code]).toEqual([200, '']);
  requests.release();
  expect((await Promise.all(slow)).filter(({ status }) => status === 200).length).toBeGreaterThan(8);
  // Their part is free again.
  const whole = await anonymous.post('/bucket?delete', { body: padded(2 * MiB) });
  expect([whole.status, whole.code]).toEqual([200, '']);
});

test('slow bodies of one account and of anonymous callers of its bucket leave memory for those of others', async () => {
  await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
  const { client, anonymous } = world;
  await client.put('/bucket');
  await world.bob.put('/of-bob');
  await client.put('/bucket?policy', { body: openToAll });
  const requests = holdRequests();
  const slow = [];
  // Ever smaller ones, so that they fill what is left.
  for (const [who, bytes] of [
    [client, 300 * 1024],
    [anonymous, 300 * 1024],
    [anonymous, 30 * 1024],
    [anonymous, 3 * 1024],
  ] as const) {
    for (let at = 0; at < 40; at += 1)
      slow.push(requests.send((held) => who.post('/bucket?delete', { body: padded(bytes), ...held })));
    await requests.settled();
  }
  expect((await Promise.race(slow)).code).toBe('SlowDown');
  const others = await world.bob.post('/of-bob?delete', { body: padded(MiB) });
  expect([others.status, others.code]).toEqual([200, '']);
  requests.release();
  await Promise.all(slow);
});

test('forms whose signature is not verified yet take no memory of others, also of those who send such forms', async () => {
  await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
  await world.client.put('/bucket');
  await world.bob.put('/of-bob');
  const requests = holdRequests();
  const form = 'Action=GetCallerIdentity&Version=2011-06-15';
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const forms = [];
  // Ever smaller ones, so that they fill what is left, from eight networks.
  for (const bytes of [120 * 1024, 8 * 1024, 600, 60]) {
    for (let at = 0; at < 80; at += 1)
      forms.push(
        requests.send((held) =>
          world.as({ credential: alice, service: 'sts' }).post('/', {
            body: form.padEnd(bytes, '&'),
            headers,
            payload: 'missing',
            remote: `10.0.${at % 8}.1`,
            ...held,
          }),
        ),
      );
    await requests.settled();
  }
  expect((await Promise.race(forms)).status).toBe(400);
  const own = [];
  for (const bytes of [300 * 1024, 30 * 1024]) {
    for (let at = 0; at < 40; at += 1)
      own.push(
        requests.send((held) => world.client.post('/bucket?delete', { body: padded(bytes), ...held })),
      );
    await requests.settled();
  }
  const small = (credential: typeof alice, { remote }: { readonly remote: string }) =>
    requests.send((held) =>
      world.as({ credential, service: 'sts' }).post('/', {
        body: form.padEnd(120 * 1024, '&'),
        headers,
        payload: 'missing',
        remote,
        ...held,
      }),
    );
  const ofBob = Array.from({ length: 8 }, () => small(bob, { remote: '10.0.9.1' }));
  await requests.settled();
  const deletionOfBob = await world.bob.post('/of-bob?delete', { body: padded(MiB) });
  expect([deletionOfBob.status, deletionOfBob.code]).toEqual([200, '']);
  requests.release();
  expect((await Promise.all(ofBob)).map(({ status }) => status)).toEqual(Array(8).fill(200));
  await Promise.all([...forms, ...own]);
});

test('forms from one network leave memory to the owner of the access key that they name, elsewhere', async () => {
  await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
  const requests = holdRequests();
  const form = 'Action=GetCallerIdentity&Version=2011-06-15';
  const send = (remote: string, bytes: number) =>
    requests.send((held) =>
      world.as({ credential: alice, service: 'sts' }).post('/', {
        body: form.padEnd(bytes, '&'),
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        payload: 'missing',
        remote,
        ...held,
      }),
    );
  const others = [];
  // Ever smaller ones, so that they fill what is left.
  for (const bytes of [120 * 1024, 8 * 1024, 600, 60]) {
    for (let at = 0; at < 80; at += 1) others.push(send('10.0.0.1', bytes));
    await requests.settled();
  }
  const own = Array.from({ length: 8 }, () => send('10.0.1.1', 120 * 1024));
  await requests.settled();
  requests.release();
  expect((await Promise.all(own)).map(({ status }) => status)).toEqual(Array(8).fill(200));
  expect((await Promise.all(others)).map(({ status }) => status)).toContain(400);
});

test('a form that arrives in chunks of one byte holds little more than its bytes before its signature is verified', async () => {
  await using world = await openGateway();
  const formBytes = 128 * 1024;
  const whole = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const sent = world.as({ credential: alice, service: 'sts' }).post('/', {
    body: 'Action=GetCallerIdentity&Version=2011-06-15'.padEnd(formBytes, '&'),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: 'missing',
    async *arriving(body) {
      for (let at = 0; at < body.length - 1; at += 1) yield body.subarray(at, at + 1);
      whole.resolve();
      await gate.promise;
      yield body.subarray(-1);
    },
  });
  const before = heldBytes();
  await whole.promise;
  expect(heldBytes() - before).toBeLessThan(8 * formBytes);
  gate.resolve();
  expect((await sent).status).toBe(200);
});

test('what must be stored although it does not fit counts for the half of the anonymous callers, too', () => {
  const memory = new SharedMemory(16 * MiB);
  const stranger = { account: 'a', isAnonymous: true };
  memory.add(8 * MiB, stranger);
  expect([memory.take(1, { account: 'b', isAnonymous: true }), memory.take(1, stranger)]).toEqual([
    false,
    false,
  ]);
  expect(memory.take(MiB, { account: 'b', isAnonymous: false })).toBe(true);
  memory.give(8 * MiB, stranger);
  expect([memory.take(MiB, stranger), memory.usedBytes]).toEqual([true, 2 * MiB]);
});

const long = 'x'.repeat(17 * 1024);
const strangerForm = encodeForm([...fieldsOf({ key: 'k', 'x-ignore-a': long }), fileOf('content')]);
const signedForm = (credential: typeof alice, bucket = 'bucket') => {
  const fields = { key: 'k', 'x-ignore-a': long };
  const conditions = Object.entries({ bucket, key: 'k' }).map(([name, value]) => ({ [name]: value }));
  return encodeForm([...fieldsOf({ ...fields, ...signForm(credential, { conditions }) }), fileOf('content')]);
};

test('PostObject: the fields of slow forms take at most half of the memory for bodies, and leave some to other networks and to signed requests', async () => {
  const { world, held } = await watchedGateway();
  await using _ = world;
  const { client, anonymous } = world;
  const requests = holdRequests();
  const send = (remote: string) =>
    requests.send(
      (held) => anonymous.post('/bucket', { body: strangerForm, headers: multipart(), remote, ...held }),
      17 * 1024,
    );
  const forms = Array.from({ length: 250 }, () => send('10.0.0.1'));
  const early = await Promise.race(forms);
  expect([early.status, early.code]).toEqual([503, 'SlowDown']);
  await requests.settled();
  expect(held.now).toBeGreaterThan(2 * MiB);
  expect(held.now).toBeLessThanOrEqual((ceiling / 2) * (3 / 4));
  const elsewhere = await anonymous.post('/bucket', {
    body: signedForm(alice),
    headers: multipart(),
    remote: '10.0.1.1',
  });
  expect([elsewhere.status, elsewhere.code]).toEqual([204, '']);
  for (let at = 0; at < 250; at += 1) forms.push(send(`10.${at % 50}.2.1`));
  await requests.settled();
  expect(held.now).toBeLessThanOrEqual(ceiling / 2);
  const own = await client.post('/bucket?delete', { body: padded(2 * MiB) });
  expect([own.status, own.code]).toEqual([200, '']);
  requests.release();
  const statuses = (await Promise.all(forms)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([403, 503]));
  expect(held.now).toBe(0);
});

test('PostObject: while the file arrives, the fields count for the signer, or for the account of the bucket where nobody signed', async () => {
  const { world, held } = await watchedGateway();
  await using _ = world;
  const { client, anonymous } = world;
  const open = policyOf({ Action: 's3:PutObject', Resource: 'arn:aws:s3:::bucket/*' });
  expect((await client.put('/bucket?policy', { body: open })).status).toBe(204);
  for (const { form, isAnonymous } of [
    { form: signedForm(alice), isAnonymous: false },
    { form: strangerForm, isAnonymous: true },
  ]) {
    const requests = holdRequests();
    const sent = requests.send((ask) =>
      anonymous.post('/bucket', { body: form, headers: multipart(), ...ask }),
    );
    await requests.settled();
    expect(held.now).toBeGreaterThan(17 * 1024);
    expect(held.now).toBeLessThan(20 * 1024);
    expect(held.of({ account: alice.owner, isAnonymous })).toBe(held.now);
    requests.release();
    expect((await sent).status).toBe(204);
    expect(held.now).toBe(0);
  }
});
