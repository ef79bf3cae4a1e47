/** Signatures of the gateway's own client verify, for any path, query and headers. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { signer } from '../../src/signing/sign-request.ts';
import { encode } from '../../src/signing/signing-key.ts';

const sign = signer({
  hasher: nodeHasher(),
  clock: { now: () => Date.UTC(2013, 4, 24) },
  accessKey: 'AKIAIOSFODNN7EXAMPLE',
  secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1',
});
const empty = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const host = 'examplebucket.s3.amazonaws.com';

/** The public documentation's own examples. */
test.each([
  {
    what: 'a range of an object',
    request: { path: '/test.txt', query: [], headers: { host, range: 'bytes=0-9' } },
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  {
    what: 'a sub-resource without a value',
    request: { path: '/', query: [['lifecycle', '']] as const, headers: { host } },
    signature: 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  },
  {
    what: 'a listing',
    request: {
      path: '/',
      query: [['max-keys', '2'] as const, ['prefix', 'J'] as const],
      headers: { host },
    },
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
])('signs $what as the public documentation does', ({ request, signature }) => {
  const { headers } = sign({ ...request, method: 'GET', payloadHash: empty });
  expect(headers['authorization']).toContain(`Signature=${signature}`);
});

test('the target carries the query as it was signed', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string({ unit: 'binary' }), fc.string())), (query) => {
      const { target } = sign({ method: 'GET', path: '/b/k', query, headers: { host }, payloadHash: empty });
      const sent = [...new URL(`http://${host}${target}`).searchParams];
      expect(sent.sort()).toEqual([...new URLSearchParams(query)].sort());
    }),
  );
});

test('what is unreserved stays, everything else is escaped in upper case', () => {
  expect(encode("AZaz09-._~ !'()*/+é")).toBe('AZaz09-._~%20%21%27%28%29%2A%2F%2B%C3%A9');
});
