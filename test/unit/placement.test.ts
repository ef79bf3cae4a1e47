/** Placement as pure functions: the choice of a cluster, the policies, and tables of all states and weights. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  buildView,
  defaultWeight,
  moved,
  type Trigger,
  transitions,
} from '../../src/domain/clusters/cluster-states.ts';
import {
  type Constraints,
  chooseCluster,
  effectivePolicy,
  pick,
} from '../../src/domain/clusters/placement.ts';
import type { ClusterState } from '../../src/ports/object-bytes.ts';

const none: ReadonlySet<string> = new Set();

describe('the picker', () => {
  const policy = new Map([
    ['a', 100],
    ['b', 50],
    ['c', 0],
  ]);

  test('chooses the same cluster for the same policy, exclusions and seed, in any order', () => {
    fc.assert(
      fc.property(
        fc.string(),
        (seed) => pick(policy, none, seed) === pick(new Map([...policy].reverse()), none, seed),
      ),
    );
  });

  test.each([
    [{ a: 100, b: 50 }],
    [{ a: 1, b: 1, c: 1, d: 1 }],
    [{ north: 100, south: 10, east: 1 }],
    [{ 'ceph-1': 70, 'ceph-2': 20, 'ceph-3': 10 }],
  ] as const)('respects weights within one percent over 100,000 picks: %j', (given) => {
    const weights = new Map<string, number>(Object.entries(given));
    const total = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
    const counts = new Map<string, number>();
    for (let i = 0; i < 100_000; i += 1) {
      // Request ids are hex digits; sequential ones are the hardest to spread evenly.
      const picked = pick(weights, none, i.toString(16).padStart(16, '0').toUpperCase()) ?? '';
      counts.set(picked, (counts.get(picked) ?? 0) + 1);
    }
    for (const [id, weight] of weights)
      expect(Math.abs((counts.get(id) ?? 0) / 100_000 - weight / total), id).toBeLessThan(0.01);
  });

  test('never picks an excluded or weightless cluster, and nothing when none is left', () => {
    fc.assert(fc.property(fc.string(), (seed) => pick(policy, new Set(['a']), seed) === 'b'));
    expect(pick(policy, new Set(['a', 'b']), 'seed')).toBeUndefined();
    expect(pick(new Map(), none, 'seed')).toBeUndefined();
  });

  test('moves only the share of a cluster that goes', () => {
    const three = new Map([...policy, ['c', 75]] as const);
    fc.assert(
      fc.property(fc.string(), (seed) => {
        const before = pick(three, none, seed);
        return before === 'c' || pick(three, new Set(['c']), seed) === before;
      }),
    );
  });
});

const clusters = (states: Readonly<Record<string, readonly [ClusterState, number]>>) =>
  buildView(
    Object.keys(states),
    Object.entries(states).map(([id, [state, weight]]) => ({ id, state, weight })),
  );

describe('the default policy', () => {
  test.each<[ClusterState, number, boolean]>([
    ['pending', 100, false],
    ['live', 100, true],
    ['live', 1, true],
    ['live', 0, false],
    ['draining_readonly', 100, false],
    ['evacuating', 100, false],
    ['removed', 100, false],
  ])('of a cluster that is %s with weight %i: %s', (state, weight, included) => {
    expect([...clusters({ a: [state, weight] }).weights]).toEqual(included ? [['a', weight]] : []);
  });

  test('has what has no row yet as live', () => {
    expect([...buildView(['a'], []).weights]).toEqual([['a', defaultWeight]]);
  });
});

describe('the effective policy', () => {
  const both = { a: 70, b: 30 };
  test.each<[string, readonly [ClusterState, number], readonly [ClusterState, number], object]>([
    ['all live: unchanged', ['live', 100], ['live', 1], both],
    ['one pending: unchanged', ['pending', 100], ['live', 100], both],
    ['one of weight 0: unchanged', ['live', 0], ['live', 100], both],
    ['one draining: dropped', ['draining_readonly', 100], ['live', 100], { b: 30 }],
    ['one evacuating: dropped', ['live', 100], ['evacuating', 100], { a: 70 }],
    ['one removed: dropped', ['removed', 100], ['live', 100], { b: 30 }],
    ['all draining: empty', ['draining_readonly', 100], ['evacuating', 100], {}],
  ])('%s', (_, a, b, expected) => {
    expect(Object.fromEntries(effectivePolicy(both, clusters({ a, b, c: ['live', 100] })))).toEqual(expected);
  });

  test('drops what is not listed', () => {
    expect(effectivePolicy({ x: 1 }, clusters({ a: ['live', 100] })).size).toBe(0);
  });
});

describe('the cluster of a write', () => {
  const live = ['live', 100] as const;
  const draining = ['draining_readonly', 100] as const;
  const evacuating = ['evacuating', 100] as const;
  type Cluster = readonly [ClusterState, number];
  test.each<[string, Constraints, Record<string, Cluster>, string | undefined]>([
    ['no placement: the live one', {}, { a: live, b: draining }, 'a'],
    ['no placement, all draining', {}, { a: evacuating, b: draining }, undefined],
    ['no placement, only pending and weight 0', {}, { a: ['pending', 100], b: ['live', 0] }, undefined],
    ['a pin comes before everything', { pin: 'b', placement: { a: 1 } }, { a: live, b: live }, 'b'],
    ['a pin to a pending one', { pin: 'b' }, { a: live, b: ['pending', 100] }, 'b'],
    ['a pin to a draining one', { pin: 'b' }, { a: live, b: draining }, undefined],
    [
      'a pin to a draining one, with a placement',
      { pin: 'b', placement: { a: 1 } },
      { a: live, b: draining },
      undefined,
    ],
    ['several pins, one draining', { pin: ['b', 'c'] }, { a: live, b: draining, c: live }, 'c'],
    ['several pins, one without weight', { pin: ['b', 'c'] }, { a: live, b: ['live', 0], c: live }, 'c'],
    ['several pins, all draining', { pin: ['b', 'c'] }, { a: live, b: draining, c: evacuating }, undefined],
    ['several pins, one not listed', { pin: ['x', 'b'] }, { a: live, b: live }, 'b'],
    ['a placement on a pending one', { placement: { b: 1 } }, { a: live, b: ['pending', 100] }, 'b'],
    ['a placement on one of weight 0', { placement: { b: 1 } }, { a: live, b: ['live', 0] }, 'b'],
    ['a placement half draining', { placement: { a: 9, b: 1 } }, { a: evacuating, b: live, c: live }, 'b'],
    ['a placement all draining', { placement: { b: 1 } }, { a: live, b: draining }, 'a'],
    ['… weighted', { placement: { b: 1 }, placementMode: 'weighted' }, { a: live, b: draining }, 'a'],
    ['… an old empty mode', { placement: { b: 1 }, placementMode: '' }, { a: live, b: draining }, 'a'],
    ['… strict', { placement: { b: 1 }, placementMode: 'strict' }, { a: live, b: draining }, undefined],
    ['… and nothing else is live', { placement: { b: 1 } }, { a: draining, b: draining }, undefined],
    [
      'strict with one left',
      { placement: { a: 1, b: 1 }, placementMode: 'strict' },
      { a: live, b: draining },
      'a',
    ],
    ['a placement on what is removed', { placement: { b: 1 } }, { a: live, b: ['removed', 100] }, 'a'],
  ])('%s', (_, constraints, states, expected) => {
    for (const seed of ['1', '2', '3'])
      expect(chooseCluster(clusters(states), constraints, seed)).toBe(expected);
  });

  const anyState = fc.constantFrom<ClusterState>(
    'pending',
    'live',
    'draining_readonly',
    'evacuating',
    'removed',
  );
  const ids = ['a', 'b', 'c', 'd'] as const;
  const weight = fc.integer({ min: 0, max: 200 });
  const anyWish = fc.record(
    {
      pin: fc.constantFrom(...ids),
      placement: fc.dictionary(fc.constantFrom(...ids, 'x'), weight),
      placementMode: fc.constantFrom('weighted' as const, 'strict' as const, '' as const),
    },
    { requiredKeys: [] },
  );
  const anyClusters = fc.record({
    a: fc.tuple(anyState, weight),
    b: fc.tuple(anyState, weight),
    c: fc.tuple(anyState, weight),
  });

  test('is never a cluster that drains, is removed or is not listed', () => {
    fc.assert(
      fc.property(anyClusters, anyWish, fc.string(), (states, constraints, seed) => {
        const chosen = chooseCluster(clusters(states), constraints, seed);
        if (chosen === undefined) return true;
        const [state] = states[chosen as 'a'] ?? [];
        return state === 'live' || state === 'pending';
      }),
      { numRuns: 2000 },
    );
  });

  test('of a bucket with a placement does not depend on the weights of the clusters', () => {
    fc.assert(
      fc.property(fc.string(), weight, weight, (seed, one, two) => {
        const constraints: Constraints = { placement: { a: 3, b: 2 } };
        const given = chooseCluster(clusters({ a: ['live', one], b: ['live', two] }), constraints, seed);
        return given === chooseCluster(clusters({ a: live, b: live }), constraints, seed);
      }),
    );
  });
});

describe('the states of a cluster', () => {
  const states: readonly ClusterState[] = ['pending', 'live', 'draining_readonly', 'evacuating', 'removed'];
  /** The state that each trigger leads to, repeated requests included. */
  const table: Readonly<Record<Trigger, Readonly<Record<string, string>>>> = {
    activate: { pending: 'live' },
    weight: { live: 'live' },
    'drain readonly': { live: 'draining_readonly', draining_readonly: 'draining_readonly' },
    'drain evacuate': { live: 'evacuating', draining_readonly: 'evacuating', evacuating: 'evacuating' },
    undrain: { draining_readonly: 'live', evacuating: 'live' },
    deregister: { pending: 'removed', evacuating: 'removed' },
    relist: { removed: 'pending' },
  };
  test.each(Object.keys(transitions) as Trigger[])(
    '%s moves from what the table lists, and from nothing else',
    (trigger) => {
      for (const from of states) expect(moved(from, trigger), from).toBe(table[trigger][from]);
    },
  );
});
