/** Operations of the public API that the gateway does not serve: refused by their own name, and never taken for another operation. */
import { expect, test } from 'vitest';
import { leftOutNames, leftOutOperations } from '../../src/protocol/operations/left-out.ts';
import { openGateway } from '../support/gateway.ts';

test('each is answered 501 with its reason, with any body, and changes nothing', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  for (const name of leftOutNames) {
    const [method = '', scope, ...marks] = leftOutOperations[name].on.split(' ');
    const path = scope === 'service' ? '/' : scope === 'bucket' ? '/bucket' : '/bucket/key';
    const query = marks.map((mark): [string, string] => {
      const [key = '', value = 'x'] = mark.slice(1).split('=');
      return [key, value];
    });
    for (const more of [
      [],
      [['versionId', 'null']],
      [
        ['partNumber', '1'],
        ['max-keys', '1'],
      ],
    ] as [string, string][][]) {
      const verb = method === 'ANY' ? 'GET' : method;
      const isForm = method === 'ANY';
      const answer = await client.send(verb, path, {
        query: [...query, ...more],
        ...(verb === 'GET' || isForm ? {} : { body: 'x'.repeat(100_000) }),
      });
      expect([name, answer.status, answer.code]).toEqual([name, 501, 'NotImplemented']);
      expect(answer.one('Message')).toContain(leftOutOperations[name].leftOut);
    }
  }
  expect((await client.get('/bucket/key')).text).toBe('content');
  expect((await client.get('/bucket')).all('Key')).toEqual(['key']);
});

test('an append is refused and not stored as a whole', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  const append = await client.put('/bucket/key', { body: 'more', headers: { '*-write-offset-bytes': '7' } });
  expect([append.status, append.code]).toEqual([501, 'NotImplemented']);
  expect((await client.get('/bucket/key')).text).toBe('content');
});
