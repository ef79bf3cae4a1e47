/** The body of an anonymous caller is not parsed if no body could authorize the request. */
import { expect, test } from 'vitest';
import { openGateway } from '../support/gateway.ts';

const policy = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    { Effect: 'Allow', Principal: '*', Action: 's3:PutObjectTagging', Resource: 'arn:aws:s3:::open/*' },
  ],
});

test('an anonymous caller without permission is refused before its body is parsed', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  await world.client.put('/open');
  await world.client.put('/open?publicAccessBlock', {
    body: '<PublicAccessBlockConfiguration></PublicAccessBlockConfiguration>',
  });
  expect((await world.client.put('/open?policy', { body: policy })).status).toBe(204);
  for (const bucket of ['bucket', 'open']) await world.client.put(`/${bucket}/key`, { body: 'content' });
  const codeOf = async (path: string): Promise<string> =>
    (await world.anonymous.put(path, { body: '<torn' })).code;
  for (const path of [
    '/new-bucket',
    '/bucket?inventory&id=a',
    '/bucket/key?tagging',
    '/bucket/key?legal-hold',
    '/bucket/key?retention',
  ])
    expect(await codeOf(path), path).toBe('AccessDenied');
  // Where a policy may allow the request, its decision can depend on the body, so the body is parsed.
  expect(await codeOf('/open/key?tagging')).toBe('MalformedXML');
});
