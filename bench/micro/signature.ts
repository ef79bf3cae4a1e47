/** Verifying a signature, beside its hashing. */

import { hash } from 'node:crypto';
import { authenticate } from '../../src/auth/authenticate.ts';
import { staticCredentials } from '../../src/auth/session/credentials.ts';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { Query, splitTarget } from '../../src/protocol/wire.ts';
import { incomingOf } from '../lib/incoming.ts';
import { microsOf, microsOfSync, type Piece } from '../lib/micro.ts';
import { bench, benchCredential, Signer } from '../lib/sign.ts';

export async function signature(): Promise<Piece[]> {
  const hasher = nodeHasher();
  const credentials = staticCredentials([benchCredential]);
  const settings = { region: bench.region, regionStrict: false, sigV2Presign: true };
  const bodyMemory = { take: () => true, give: () => {} };
  const ctx = { caches: new Caches(), credentials, clock: systemClock, hasher, bodyMemory, settings };
  const signer = new Signer('localhost:9000');
  const check = (head: string) => async () => {
    const incoming = incomingOf(head);
    const { path, query } = splitTarget(incoming.wire.target);
    await authenticate(ctx, incoming, { path, query: new Query(query) });
  };
  const text = 'x'.repeat(300);
  const floor = {
    name: 'three one-shot SHA-256',
    micros: microsOfSync(() => [hash('sha256', text), hash('sha256', text), hash('sha256', text)]),
  };
  const call = { method: 'GET', path: '/bucket/some/key' };
  return [
    { name: 'signature, header', micros: await microsOf(check(signer.header(call))), floor },
    { name: 'signature, presigned', micros: await microsOf(check(signer.presigned(call))), floor },
  ];
}
