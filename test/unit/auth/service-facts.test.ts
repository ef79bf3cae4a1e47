/** Condition keys that need no request: the gateway's own services have all of them. */
import { expect, test } from 'vitest';
import { type Asking, collectFacts } from '../../../src/auth/facts.ts';
import { conditionKeys } from '../../../src/auth/policy/keys.ts';
import { serviceFacts } from '../../../src/auth/service-write.ts';
import type { BucketRow, ObjectRow } from '../../../src/metadata/tables.ts';

class RequestRead extends Error {}

/** Anything of a request: to read from it is to need the request. */
const trap = new Proxy(
  {},
  {
    get() {
      throw new RequestRead();
    },
  },
);
const asking = Object.fromEntries(
  ['wire', 'query', 'own', 'signed', 'identity', 'operation'].map((name) => [name, trap]),
) as unknown as Asking;
const bucket = { name: 'photos', owner: 'tenant', region: 'eu-west-3' } as BucketRow;
const target = { headers: { tags: [['team', 'red']] } } as unknown as ObjectRow;
const now = Date.UTC(2026, 10, 27);

const facts = collectFacts(
  asking,
  { bucket, target, requestTags: trap as never },
  { now, region: 'us-east-1', account: undefined },
);

/** The value of a key that no request is needed for. */
function standingValue(key: string): unknown {
  try {
    return facts.lookup(key);
  } catch (cause) {
    if (cause instanceof RequestRead) return undefined;
    throw cause;
  }
}

test('every condition key that needs no request is present for services, with the same value', () => {
  const service = serviceFacts(
    { clock: { now: () => now }, config: { SVC_REGION: 'us-east-1' } },
    { bucket, target },
    [],
  );
  const keys = [...conditionKeys.keys(), 's3:ExistingObjectTag/team'];
  const standing = keys.filter((key) => standingValue(key) !== undefined);
  expect(standing).toEqual(
    expect.arrayContaining([
      'aws:CurrentTime',
      'aws:EpochTime',
      'aws:RequestedRegion',
      'aws:ResourceAccount',
    ]),
  );
  expect(standing).toContain('s3:ExistingObjectTag/team');
  for (const key of standing) expect([key, service.lookup(key)]).toEqual([key, standingValue(key)]);
  expect(service.lookup('aws:SecureTransport')).toBe('true');
});
