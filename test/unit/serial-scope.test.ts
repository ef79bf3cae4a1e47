/** Replication settings: the data centers with replicas, and whether a quorum is possible. */
import { describe, expect, test } from 'vitest';
import {
  assertReachable,
  readReplication,
  replicasIn,
} from '../../src/backends/metadata/wide-column/schema.ts';

const network = (rest: string): string => `{'class': 'NetworkTopologyStrategy', ${rest}}`;
const ringOf = (nodes: Record<string, number>): ReadonlyMap<string, number> => new Map(Object.entries(nodes));

describe('replicas by data center', () => {
  test.each([
    [network("'replication_factor': 3"), { dc1: 1 }, { dc1: 3 }],
    [network("'replication_factor': 3"), { dc1: 3, dc2: 3 }, { dc1: 3, dc2: 3 }],
    [network("'replication_factor': 3, 'dc2': 1"), { dc1: 3, dc2: 3 }, { dc1: 3, dc2: 1 }],
    [network("'dc1': 3, 'dc2': 0"), { dc1: 3, dc2: 3 }, { dc1: 3 }],
    [network("'dc1': '3/1'"), { dc1: 3 }, { dc1: 3 }],
    ["{'class': 'SimpleStrategy', 'replication_factor': 2}", { dc1: 3 }, { '*': 2 }],
    ["{'class': 'SimpleStrategy', 'replication_factor': 2}", { dc1: 3, dc2: 1 }, { '*': 2 }],
    ["{'class': 'org.apache.cassandra.locator.NetworkTopologyStrategy', 'dc1': '2'}", { dc1: 2 }, { dc1: 2 }],
  ])('%s on %o', (text, nodes, expected) => {
    expect(Object.fromEntries(replicasIn(readReplication(text), ringOf(nodes)))).toEqual(expected);
  });
});

describe('a quorum', () => {
  const reach = (
    replicas: Record<string, number>,
    nodes: Record<string, number>,
    scope: 'local' | 'global',
  ) =>
    assertReachable(ringOf(replicas), {
      nodes: ringOf(nodes),
      localDc: 'dc1',
      keyspace: 'sluice',
      scope,
      remedy: 'SVC_WIDECOL_REPLICATION =',
    });
  test.each([
    [{ dc1: 1 }, { dc1: 1 }, 'local'],
    [{ dc1: 3 }, { dc1: 2 }, 'local'],
    [{ dc1: 3, dc2: 3 }, { dc1: 2, dc2: 1 }, 'local'],
    [{ dc1: 3, dc2: 3 }, { dc1: 3, dc2: 1 }, 'global'],
    [{ '*': 3 }, { dc1: 1, dc2: 1 }, 'global'],
  ] as const)('of %o on %o can be reached (%s)', (replicas, nodes, scope) => {
    expect(() => reach(replicas, nodes, scope)).not.toThrow();
  });
  test.each([
    [{ dc1: 3 }, { dc1: 1 }, 'local'],
    [{ dc1: 2 }, { dc1: 1 }, 'local'],
    [{ dc1: 3, dc2: 3 }, { dc1: 1, dc2: 3 }, 'local'],
    [{ dc1: 3, dc2: 3 }, { dc1: 2, dc2: 1 }, 'global'],
    [{ '*': 3 }, { dc1: 1 }, 'global'],
  ] as const)('of %o on %o cannot be (%s)', (replicas, nodes, scope) => {
    expect(() => reach(replicas, nodes, scope)).toThrow(
      /too few nodes for a quorum.*SVC_WIDECOL_REPLICATION/,
    );
  });
});
