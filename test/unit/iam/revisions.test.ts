/** How long the revision of an account's records is cached. */

import { expect, test } from 'vitest';
import { Revisions } from '../../../src/auth/session/account-keys.ts';
import { memoryStore } from '../../../src/backends/metadata/memory-store.ts';
import { Caches } from '../../../src/base/bounded-cache.ts';
import { configWith } from '../../../src/config/read-config.ts';
import { createUser } from '../../../src/domain/iam/users.ts';
import { systemRandom } from '../../../src/ports/random.ts';
import { faulty } from '../../support/faulty.ts';
import { virtualClock } from '../../support/virtual-clock.ts';

function open(cacheTtlMs: number) {
  const clock = virtualClock();
  const random = systemRandom();
  const metadata = memoryStore({ clock, random });
  // Use a second store, as another gateway that changes the records would.
  const elsewhere = faulty(metadata, {});
  const names = ['first', 'second'];
  const change = () =>
    createUser({ caches: new Caches(), config: configWith({}), metadata: elsewhere, clock, random }, 'a', {
      name: names.shift() ?? 'more',
      path: '/',
      tags: [],
      boundary: undefined,
    });
  return { clock, change, revisions: new Revisions({ metadata, clock, cacheTtlMs }) };
}

test('it is read each time where that is cheap', async () => {
  const { change, revisions } = open(0);
  expect(await revisions.of('a')).toBeUndefined();
  await change();
  const first = await revisions.of('a');
  expect(first).toBeDefined();
  await change();
  expect(await revisions.of('a')).not.toBe(first);
  revisions.saw('a', 'something else', revisions.look());
  expect(await revisions.of('a')).not.toBe('something else');
});

test('a revision is cached for its time, unless a newer one was seen', async () => {
  const { clock, change, revisions } = open(2_000);
  await change();
  const first = await revisions.of('a');
  await change();
  await clock.advance(1_999);
  expect(await revisions.of('a')).toBe(first);
  await clock.advance(1);
  const second = await revisions.of('a');
  expect(second).not.toBe(first);
  revisions.saw('a', 'newer', revisions.look());
  expect(await revisions.of('a')).toBe('newer');
  await clock.advance(2_000);
  expect(await revisions.of('a')).toBe(second);
});

test('a change through this process invalidates it, and reads during the change are not cached', async () => {
  const clock = virtualClock();
  const metadata = memoryStore({ clock, random: systemRandom() });
  const revisions = new Revisions({ metadata, clock, cacheTtlMs: 2_000 });
  const change = (name: string) =>
    createUser(
      { caches: new Caches(), config: configWith({}), metadata, clock, random: systemRandom() },
      'a',
      {
        name,
        path: '/',
        tags: [],
        boundary: undefined,
      },
    );
  await change('first');
  const first = await revisions.of('a');
  const look = revisions.look();
  await change('second');
  revisions.saw('a', first, look);
  expect(await revisions.of('a')).not.toBe(first);
});
