/**
 * Attack group 17 of docs/security.md: the same name twice in one request. An ambiguous request is refused and changes nothing; a list may
 * have several members.
 */
import { describe, expect, test } from 'vitest';
import { openGateway, operator } from '../support/gateway.ts';
import { xmlBodies } from '../support/xml-bodies.ts';
import { everyElement, parseTree, printTree } from '../support/xml-trees.ts';
import { form, openFormWorld } from './form-world.ts';

/** The elements that are lists in the public API, so that a document may repeat them. */
const listed = new Set(
  (
    'Grant CORSRule AllowedHeader AllowedMethod AllowedOrigin ExposeHeader Part Tag Object Field Rule Transition ' +
    'NoncurrentVersionTransition TopicConfiguration QueueConfiguration CloudFunctionConfiguration Event FilterRule ' +
    'RoutingRule EncryptionType'
  ).split(' '),
);

describe.each(xmlBodies)('$root on $on', ({ on, document }) => {
  test('an element that is no list member is refused where it appears twice', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
    await world.client.put('/bucket/key', { body: 'content' });
    await world.client.put('/bucket/archived', { body: 'x', headers: { '*-storage-class': 'GLACIER' } });
    const [method = '', path = ''] = on.split(' ');
    const count = everyElement(parseTree(document)).length;
    const taken: string[] = [];
    for (let at = 1; at < count; at += 1) {
      const tree = parseTree(document);
      const child = everyElement(tree)[at];
      const parent = everyElement(tree).find(({ children }) => child && children.includes(child));
      if (child === undefined || parent === undefined || listed.has(child.name)) continue;
      parent.children.push({ ...child, text: child.text === '' ? '' : `${child.text}2` });
      const { status, code, one } = await world.client.send(method, path, { body: printTree(tree) });
      if (
        status !== 400 ||
        !/^Malformed(XML|ACLError)$/.test(code ?? '') ||
        !one('Message')?.includes('more than once')
      )
        taken.push(`${parent.name}/${child.name}: ${status} ${code} ${one('Message')}`);
    }
    expect(taken).toEqual([]);
  });
});

describe('a form', () => {
  test('with a field twice, in two cases of its name, is refused', async () => {
    const { world, post, refuses } = await openFormWorld();
    await using _ = world;
    const [first, ...rest] = form();
    const parts = [{ name: 'KEY', value: 'other' }, ...(first === undefined ? [] : [first]), ...rest];
    await refuses(post(parts), 400, 'InvalidArgument', /more than once/);
  });
});

describe('a query parameter with two values', () => {
  const targets = [
    '/bucket?list-type=2&prefix=a&prefix=b',
    '/bucket/key?versionId=null&versionId=other',
    '/bucket/key?versionId=null&%76ersionId=other',
    '/bucket/key?response-content-type=text/plain&response-content-type=text/html',
    '/bucket/key?X-Amz-Expected-Bucket-Owner=alice-account&x-amz-expected-bucket-owner=bob-account',
  ];
  test.each(targets)('is refused: %s', async (target) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    const { status, code, one } = await world.client.get(target);
    expect([status, code]).toEqual([400, 'InvalidArgument']);
    expect(one('Message')).toContain('more than once');
  });

  test('is refused by the operator API', async () => {
    await using world = await openGateway();
    const admin = world.as({ credential: operator });
    for (const target of ['logins?accessKey=a&accessKey=b', 'buckets?limit=5&%6Cimit=6']) {
      const method = target.startsWith('logins') ? 'DELETE' : 'GET';
      const { status, text } = await admin.send(method, `/admin/v1/${target}`);
      expect([status, text]).toEqual([400, expect.stringContaining('more than once')]);
    }
    expect((await admin.get('/admin/v1/buckets?limit=5&limit=5')).status).toBe(200);
  });

  test('twice with one value means that value', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    expect((await world.client.get('/bucket?list-type=2&prefix=k&prefix=k')).all('Key')).toEqual(['key']);
  });
});
