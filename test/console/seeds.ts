/** What a gateway holds before pages are looked at: nothing, what is usual, and what strains a layout. */

import { portableHasher } from '../../src/backends/crypto/portable.ts';
import { toHex } from '../../src/base/text/hex.ts';
import { signer } from '../../src/signing/sign-request.ts';
import { encode } from '../../src/signing/signing-key.ts';
import { type TestServer, testCredentials } from '../support/server.ts';
import { closeDays, threeWeeks } from './usage-days.ts';
import type { Pair } from './world.ts';

export type Seed = 'empty' | 'typical' | 'extreme';
export const seeds: readonly Seed[] = ['empty', 'typical', 'extreme'];

/** As long as a name of a bucket may be. */
const longName = 'a-bucket-whose-name-is-as-long-as-it-may-be-of-sixty-three-char';

/** Parameters of addresses, by seed. */
export const parametersOf: Readonly<Record<Seed, Readonly<Record<string, string>>>> = {
  empty: { bucket: 'none', cluster: 'default', trace: 'none', user: 'nobody' },
  typical: { bucket: 'photos', cluster: 'default', trace: 'none', user: 'root-account' },
  extreme: { bucket: longName, cluster: 'default', trace: 'none', user: 'root-account' },
};

export interface SendOptions {
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly as?: Pair;
}

/** A signed request to the storage protocol, or with a path of `/admin/v1` to the operator API. @throws where it is refused */
export async function send(
  { url }: TestServer,
  method: string,
  path: string,
  options: SendOptions = {},
): Promise<Response> {
  const { body = '', headers = {}, query = {}, as = testCredentials.root } = options;
  const hasher = portableHasher();
  const sign = signer({ hasher, clock: { now: Date.now }, ...as, region: 'us-east-1' });
  const signed = sign({
    method,
    path: path.split('/').map(encode).join('/'),
    query: Object.entries(query),
    headers: { host: new URL(url).host, ...headers },
    payloadHash: toHex(
      hasher.once('sha256', typeof body === 'string' ? new TextEncoder().encode(body) : body),
    ),
  });
  const { host: _, ...sent } = signed.headers;
  const reply = await fetch(url + signed.target, {
    method,
    headers: sent,
    ...(body.length === 0 ? {} : { body }),
  });
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`);
  return reply;
}

const names = ['invoices', 'photos', 'backups-eu', 'logs.2026', 'ml-training', 'website', 'exports'];

async function fillTypical(server: TestServer): Promise<void> {
  for (const [index, name] of names.entries()) {
    await send(server, 'PUT', `/${name}`);
    for (let n = 0; n < 5; n += 1)
      await send(server, 'PUT', `/${name}/2026/${n + 1}/report-${n}.csv`, {
        body: 'x'.repeat((index + 1) * 997 * (n + 1)),
      });
  }
  await closeDays(server, 'photos', threeWeeks);
  await send(server, 'PUT', '/admin/v1/buckets/photos/quota', {
    body: '{"maxBytes":"64KiB","maxObjects":1000}',
    headers: { 'content-type': 'application/json' },
  });
}

const hostileKeys = [
  '<img src=x onerror=alert(1)>.html',
  'k'.repeat(1_024),
  '\u202Egnp.exe',
  '👩‍👩‍👧‍👦/مرحبا بالعالم.txt',
  'a b+c%d&e=f?g#h',
  '=cmd|calc!A0',
  '..up/.hidden',
  'tab\there',
];

async function fillExtreme(server: TestServer): Promise<void> {
  await fillTypical(server);
  await send(server, 'PUT', `/${longName}`);
  await closeDays(server, longName, [
    { ago: 1, storageClass: '=cmd|calc!A0', byteSeconds: '9223372036854775807', objects: 2 ** 52 },
    { ago: 1, storageClass: `<b>${'c'.repeat(60)}</b>`, byteSeconds: '1', objects: 1 },
  ]);
  for (const key of hostileKeys) await send(server, 'PUT', `/${longName}/${key}`, { body: 'hostile' });
  for (const key of hostileKeys)
    await send(server, 'POST', `/${longName}/${key}`, { query: { uploads: '' } });
  for (const key of hostileKeys) await fetch(`${server.url}/${longName}/${encodeURIComponent(key)}`);
  for (let n = 0; n < 120; n += 1) await send(server, 'PUT', `/bucket-${String(n).padStart(4, '0')}`);
}

export async function fill(server: TestServer, seed: Seed): Promise<void> {
  if (seed === 'typical') await fillTypical(server);
  if (seed === 'extreme') await fillExtreme(server);
}
