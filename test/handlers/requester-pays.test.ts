/** Requester Pays buckets: callers of other accounts must accept the charge (public API "Requester Pays buckets"). */
import { expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { alice, openGateway, person } from '../support/gateway.ts';
import { createUpload } from '../support/gateway-bodies.ts';

const payment = (payer: string): string =>
  `<RequestPaymentConfiguration><Payer>${payer}</Payer></RequestPaymentConfiguration>`;
const agreed = { '*-request-payer': 'requester' };

test('another account that agrees to pay is accepted, and the reply says that it is charged', async () => {
  const ursula = person('ursula', { owner: alice.owner, root: false });
  await using world = await openGateway({ people: [ursula] });
  const { client, bob, anonymous } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const resources = ['arn:aws:s3:::bucket', 'arn:aws:s3:::bucket/*'];
  await client.put('/bucket?policy', { body: policyOf({ Action: 's3:*', Resource: resources }) });
  for (const payer of ['Requester', 'BucketOwner']) {
    await client.put('/bucket?requestPayment', { body: payment(payer) });
    const isCharged = payer === 'Requester';
    for (const [method, path] of [
      ['GET', '/bucket/key'],
      ['HEAD', '/bucket/key'],
      ['GET', '/bucket?list-type=2'],
      ['PUT', '/bucket/other'],
      ['DELETE', '/bucket/other'],
    ] as const) {
      const body = method === 'PUT' ? { body: 'x' } : {};
      const at = `${payer} ${method} ${path}`;
      const silent = await bob.send(method, path, body);
      expect(silent.status, at).toBe(isCharged ? 403 : method === 'DELETE' ? 204 : 200);
      expect((await anonymous.send(method, path, body)).status === 403, at).toBe(isCharged);
      const headers = { '*-request-payer': 'somebody' };
      expect((await bob.send(method, path, { ...body, headers })).status === 403, at).toBe(isCharged);
      const paid = await bob.send(method, path, { ...body, headers: agreed });
      expect([paid.status < 300, paid.header('*-request-charged')], at).toEqual([
        true,
        isCharged ? 'requester' : undefined,
      ]);
      // Callers of the bucket's own account need no header and are not charged.
      for (const own of [client, world.as({ credential: ursula })]) {
        const home = await own.send(method, path, { ...body, headers: agreed });
        expect([home.status < 300, home.header('*-request-charged')], at).toEqual([true, undefined]);
      }
    }
  }
});

test('without the header of a payer a missing key is refused like one that is there', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket', { headers: { '*-acl': 'public-read' } });
  await client.put('/bucket/key', { body: 'x' });
  await client.put('/bucket?requestPayment', { body: payment('Requester') });
  for (const path of ['/bucket/key', '/bucket/absent']) expect((await bob.get(path)).status, path).toBe(403);
  expect((await bob.get('/bucket/absent', { headers: agreed })).status).toBe(404);
});

test('a copy without a right to the source does not tell that its bucket charges', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  await bob.put('/other');
  const ask = async () => {
    const { status, code, one } = await bob.put('/other/copy', {
      headers: { '*-copy-source': '/bucket/key' },
    });
    return [status, code, one('Message')];
  };
  const before = await ask();
  await client.put('/bucket?requestPayment', { body: payment('Requester') });
  expect(before[0]).toBe(403);
  expect(await ask()).toEqual(before);
});

test('the source of a copy may charge as well; a presigned URL agrees in its query', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket', { headers: { '*-acl': 'public-read' } });
  await client.put('/bucket/key', { body: 'x', headers: { '*-acl': 'public-read' } });
  await client.put('/bucket?requestPayment', { body: payment('Requester') });
  await bob.put('/bobs');
  const copy = { '*-copy-source': '/bucket/key' };
  expect((await bob.put('/bobs/copy', { headers: copy })).status).toBe(403);
  const copied = await bob.put('/bobs/copy', { headers: { ...copy, ...agreed } });
  expect([copied.status, copied.header('*-request-charged')]).toEqual([200, 'requester']);
  const query = { uploadId: await createUpload(bob, '/bobs/parts'), partNumber: '1' };
  const part = await bob.put('/bobs/parts', { query, headers: { ...copy, ...agreed } });
  expect([part.status, part.header('*-request-charged')]).toEqual([200, 'requester']);
  const own = await client.put('/bucket/copy', { headers: copy });
  expect([own.status, own.header('*-request-charged')]).toEqual([200, undefined]);
  // Once, where the destination charges too.
  await client.put('/bucket?policy', {
    body: policyOf({ Action: 's3:*', Resource: 'arn:aws:s3:::bucket/*' }),
  });
  const within = await bob.put('/bucket/bobs', { headers: { ...copy, ...agreed } });
  expect(within.headers.filter(([name]) => name.endsWith('-request-charged'))).toHaveLength(1);
  expect((await bob.presigned('GET', '/bucket/key')).status).toBe(403);
  const agreeing = { 'x-amz-request-payer': 'requester' };
  expect((await bob.presigned('GET', '/bucket/key', { query: agreeing })).text).toBe('x');
});

test('visitors of a website cannot pay, and see neither a page nor an index', async () => {
  await using world = await openGateway({ settings: { SVC_WEBSITE_DOMAIN: 'site.test' } });
  const { client, anonymous } = world;
  const site = world.as({ anonymous: true, host: 'bucket.site.test' });
  await client.put('/bucket');
  await client.put('/bucket/index.html', { body: 'home', headers: { '*-acl': 'public-read' } });
  const website = '<IndexDocument><Suffix>index.html</Suffix></IndexDocument>';
  await client.put('/bucket?website', { body: `<WebsiteConfiguration>${website}</WebsiteConfiguration>` });
  for (const [payer, status] of [
    ['BucketOwner', 200],
    ['Requester', 403],
  ] as const) {
    await client.put('/bucket?requestPayment', { body: payment(payer) });
    for (const [visitor, path] of [
      [site, '/'],
      [site, '/index.html'],
      [anonymous, '/bucket/'],
      [anonymous, '/bucket/index.html'],
    ] as const)
      expect((await visitor.get(path)).status, `${payer} ${path}`).toBe(status);
  }
});
