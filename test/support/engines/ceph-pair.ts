/** Two Ceph clusters for the tests of one file. */
import { afterAll, beforeAll } from 'vitest';
import { type CephCluster, startCeph } from './ceph.ts';

/** Call it where suites are described: the clusters start before the tests and are stopped after them. */
export function cephPair(): readonly CephCluster[] {
  const clusters: CephCluster[] = [];
  beforeAll(async () => {
    clusters.push(...(await Promise.all([startCeph(), startCeph()])));
  });
  afterAll(async () => {
    await Promise.all(clusters.map((cluster) => cluster[Symbol.asyncDispose]()));
  });
  return clusters;
}
