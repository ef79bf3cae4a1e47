/** How accounts share a ring of recent entries. */
import { expect, test } from 'vitest';
import { RecentEntries } from '../../src/base/recent-entries.ts';
import { openDice } from '../support/dice.ts';

const max = 60;

test('an account loses entries only while it has more than an equal share, and the ring stays full', () => {
  const seed = Date.now();
  const { roll } = openDice(seed);
  const recent = new RecentEntries<{ at: number; account: string }>([max]);
  const listed = () => recent.read({ max: 2 * max, matches: () => true }).entries.map(({ entry }) => entry);
  for (let at = 0; at < 3_000; at += 1) {
    const before = Map.groupBy(listed(), ({ account }) => account);
    // Few accounts at first, then many with an entry or two, then one with a flood.
    const accounts = at < 1_000 ? 4 : at < 2_000 ? 50 : 1 + roll(3) * roll(20);
    const account = `account-${roll(accounts)}`;
    recent.add(0, { at, account }, account);
    const after = Map.groupBy(listed(), (entry) => entry.account);
    const share = max / after.size;
    for (const [name, own] of before) {
      const left = after.get(name) ?? [];
      const added = name === account ? 1 : 0;
      if (own.length + added <= share) expect(left.slice(0, own.length), `seed ${seed}`).toEqual(own);
      else expect(left.length).toBeGreaterThanOrEqual(own.length + added - 1);
    }
    expect(listed().length).toBe(Math.min(at + 1, max));
  }
});
