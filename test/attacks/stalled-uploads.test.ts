/** Uploads whose clients send no more: what they hold is bounded, and is the share of their own account. */
import { expect, test, vi } from 'vitest';
import { openGateway, person } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { holdingAfter } from '../support/held-body.ts';

const MiB = 1024 * 1024;
/** Half MiB in the 64 MiB of `SVC_MEMORY_MAX`. */
const uploadsMax = 128;

test('an account with many stalled uploads gets SlowDown for further ones, and others upload as before', async () => {
  await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
  const { client, bob } = world;
  await client.put('/bucket');
  await bob.put('/of-bob');
  const gate = Promise.withResolvers<void>();
  const body = new Uint8Array(MiB);
  const arriving = holdingAfter(64 * 1024, gate.promise);
  const put = (key: string) => client.put(`/bucket/${key}`, { body, arriving });
  const sent = Array.from({ length: uploadsMax }, (_, at) => put(`key${at}`));
  let refused = 0;
  for (const each of sent)
    void each.then(({ code }) => {
      if (code === 'SlowDown') refused += 1;
    });
  // The gateway answers these before the gate opens.
  await vi.waitFor(() => expect(refused).toBe(uploadsMax / 4), { timeout: 60_000 });
  for (const key of ['small', 'small again'])
    expect((await client.put(`/bucket/${encodeURIComponent(key)}`, { body: 'small' })).status).toBe(200);
  const others = Array.from({ length: 8 }, (_, at) => bob.put(`/of-bob/key${at}`, { body }));
  expect((await Promise.all(others)).map(({ status }) => status)).toEqual(Array(8).fill(200));

  gate.resolve();
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength((uploadsMax * 3) / 4);
  expect(statuses.filter((status) => status === 503)).toHaveLength(uploadsMax / 4);
  expect((await client.put('/bucket/later', { body })).status).toBe(200);
});

test('accounts with many stalled uploads leave memory for the uploads of every other one', async () => {
  const people = ['carol', 'dave'].map((name) => person(name));
  await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' }, people });
  const [carol, dave] = people.map((credential) => world.as({ credential })) as [Client, Client];
  const gate = Promise.withResolvers<void>();
  const body = new Uint8Array(MiB);
  const arriving = holdingAfter(64 * 1024, gate.promise);
  const stalled: Promise<unknown>[] = [];
  for (const [name, client] of Object.entries({ alice: world.client, bob: world.bob, carol })) {
    await client.put(`/${name}`);
    let refused = 0;
    const sent = Array.from({ length: uploadsMax }, (_, at) =>
      client.put(`/${name}/key${at}`, { body, arriving }),
    );
    for (const each of sent)
      void each.then(({ code }) => {
        if (code === 'SlowDown') refused += 1;
      });
    // What the gateway refuses it answers before the gate opens.
    await vi.waitFor(() => expect(refused).toBeGreaterThanOrEqual(uploadsMax / 4), { timeout: 60_000 });
    stalled.push(...sent);
  }
  await dave.put('/dave');
  expect((await dave.put('/dave/key', { body })).status).toBe(200);
  gate.resolve();
  await Promise.all(stalled);
});
