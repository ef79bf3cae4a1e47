/** This gateway and a radosgw over one real Ceph cluster, which is stopped after the last of them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CephCluster, startCeph, startRadosgw } from '../../test/support/engines/ceph.ts';
import { bench } from './sign.ts';

let shared: Promise<CephCluster> | undefined;
let users = 0;

/** The cluster of this run, and the function that releases it. */
export async function useCeph(): Promise<{ readonly cluster: CephCluster; leave(): Promise<void> }> {
  users += 1;
  shared ??= startCeph();
  const cluster = await shared;
  const leave = async (): Promise<void> => {
    users -= 1;
    if (users > 0) return;
    shared = undefined;
    await cluster[Symbol.asyncDispose]();
  };
  return { cluster, leave };
}

export async function startRadosgwTarget() {
  const { cluster, leave } = await useCeph();
  const { accessKey, secretKey } = bench;
  const { endpoint } = await startRadosgw(cluster, { accessKey, secretKey });
  const { hostname: host, port } = new URL(endpoint);
  const pid = Number(readFileSync(join(cluster.conf, '../run/client.rgw.s3.pid'), 'utf8'));
  return { pid, host, port: Number(port), stop: leave };
}
