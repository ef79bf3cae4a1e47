/** The signatures of the public documentation: the gateway and the tests' own signer both compute and accept them. */
import { describe, expect, test } from 'vitest';
import { signer } from '../../support/sign.ts';
import { check, refusalCode } from '../../support/sign-check.ts';
import { exampleKey, exampleTime, publishedExamples, publishedPresigned } from '../../vectors/sigv4.ts';

const clientAt = (host: string) => signer({ ...exampleKey, host, now: () => exampleTime });
const at = { at: exampleTime };

describe.each(publishedExamples)(
  'the published example "$name"',
  ({ host, spec, signature, further = [] }) => {
    const request = clientAt(host).request(spec);

    test('computes the published signatures', () => {
      const authorization = request.headers.find(([name]) => name === 'authorization')?.[1];
      expect(authorization?.slice(-64)).toBe(signature);
      const body = Buffer.from(request.body ?? []).toString();
      expect([...body.matchAll(/-signature[=:]([0-9a-f]{64})/g)].map((found) => found[1])).toEqual(further);
    });

    test('is accepted, with the content that was sent', async () => {
      const { identity, dialect, content } = await check(request, at);
      expect(identity?.owner).toBe('account-example');
      expect(dialect).toBe('amz');
      expect(Buffer.from(content).toString()).toBe(spec.body ?? '');
    });

    test('is refused with another method', async () => {
      expect(await refusalCode({ ...request, method: 'POST' }, at)).toBe('SignatureDoesNotMatch');
    });
  },
);

test('the published presigned URL is computed and accepted', async () => {
  const { host, path, expires, signature } = publishedPresigned;
  const request = clientAt(host).presign({ path, expires });
  expect(request.target).toContain(`X-Amz-Signature=${signature}`);
  expect((await check(request, at)).identity?.accessKey).toBe(exampleKey.accessKey);
});

test('the identity carries no secret', async () => {
  const { identity } = await check(clientAt('s3.amazonaws.com').request({ path: '/b/k' }), at);
  expect(JSON.stringify(identity)).not.toContain(exampleKey.secretKey);
});
