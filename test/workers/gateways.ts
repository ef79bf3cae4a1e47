/** Gateways under miniflare: clients of them, two isolates over the same objects, and what the operator API says of a bucket. */
import type { Miniflare } from 'miniflare';
import { expect } from 'vitest';
import { type Send, sender } from '../runtimes/client.ts';
import { durableBindings, workerdFlags } from '../runtimes/workerd.ts';
import { testCredentials } from '../support/server.ts';

/** Each request has a connection of its own, because workerd closes those that were idle. */
const clientAt = (url: string): Send => sender({ url, ...testCredentials.root, connectsAnew: true });

export const clientOf = async (worker: Miniflare): Promise<Send> => clientAt((await worker.ready).origin);

/** The options of a miniflare for one bundle. */
export const scriptOf = (contents: string) => ({
  modules: [{ type: 'ESModule' as const, path: 'sluice.js', contents }],
  ...workerdFlags,
});

/** The option `workers` of a miniflare with two isolates over the same objects and the same R2. */
export function twoIsolates(contents: string, bindings: Readonly<Record<string, string>>) {
  const { r2Buckets, durableObjects } = durableBindings;
  const isolate = (name: string) => ({
    name,
    ...scriptOf(contents),
    bindings,
    r2Buckets,
    unsafeDirectSockets: [{}],
  });
  const other = { SLUICE: { className: 'SluiceMetadata', scriptName: 'one', useSQLite: true } };
  return [
    { ...isolate('one'), durableObjects },
    { ...isolate('two'), durableObjects: other },
  ];
}

/** Clients of the two isolates. */
export async function clientsOfBoth(worker: Miniflare): Promise<readonly [Send, Send]> {
  const [one, two] = [await worker.unsafeGetDirectURL('one'), await worker.unsafeGetDirectURL('two')];
  return [clientAt(one.origin), clientAt(two.origin)];
}

export async function askAdmin(send: Send, path: string) {
  const { status, text } = await send('GET', `/admin/v1/${path}`);
  expect(status, text).toBe(200);
  return JSON.parse(text);
}

/** The statuses of the writes in the audit log, by key. A write whose outcome is unknown to its client has the status of its answer. */
export async function auditedWrites(
  send: Send,
  bucket: string,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const rows: { readonly key: string; readonly status: number }[] = [];
  for (let after = ''; ; ) {
    const page = await askAdmin(send, `audit?bucket=${bucket}&action=PutObject&limit=1000${after}`);
    rows.push(...page.rows);
    if (page.next === undefined) break;
    after = `&after=${encodeURIComponent(page.next)}`;
  }
  const byKey = Map.groupBy(rows, ({ key }) => key);
  return new Map([...byKey].map(([key, found]) => [key, found.map(({ status }) => status).sort()]));
}
