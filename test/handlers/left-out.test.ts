/** Operations of the public API that the gateway does not serve: refused by their own name, and never taken for another operation. */
import { expect, test } from 'vitest';
import { leftOutNames, leftOutOperations } from '../../src/protocol/operations/left-out.ts';
import { controlling, open } from '../support/access-points.ts';
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

const replication = (filter: string, destination = ''): string =>
  '<ReplicationConfiguration><Role>arn:aws:iam::test:role/r</Role><Rule><Status>Enabled</Status><Priority>1</Priority>' +
  `<DeleteMarkerReplication><Status>Disabled</Status></DeleteMarkerReplication><Filter>${filter}</Filter>` +
  `<Destination><Bucket>arn:aws:s3:::other</Bucket>${destination}</Destination></Rule></ReplicationConfiguration>`;
const defaultHold =
  '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>' +
  '<Mode>GOVERNANCE</Mode><Days>1</Days><DefaultEventHold><Days>1</Days></DefaultEventHold>' +
  '</DefaultRetention></Rule></ObjectLockConfiguration>';

test('an element of the public API that is not served is answered 501 by its name, and changes nothing', async () => {
  await using world = await openGateway(open);
  const { client } = world;
  await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  await client.put('/bucket/key', { body: 'content' });
  const not = '<Not><Prefix>tmp/</Prefix></Not>';
  for (const [path, body, name] of [
    ['/bucket?replication', replication(not), 'Not'],
    ['/bucket?replication', replication(`<And><Prefix>a</Prefix>${not}</And>`), 'Not'],
    [
      '/bucket?replication',
      replication(
        '<Prefix>a</Prefix>',
        '<EncryptionConfiguration><UseSourceMultiRegionKey><Status>Enabled</Status></UseSourceMultiRegionKey></EncryptionConfiguration>',
      ),
      'UseSourceMultiRegionKey',
    ],
    ['/bucket?object-lock', defaultHold, 'DefaultEventHold'],
    ['/bucket/key?retention', '<Retention><EventHold>ON</EventHold></Retention>', 'EventHold'],
    [
      '/bucket/key?retention',
      '<Retention><EventHoldDuration><Days>1</Days></EventHoldDuration></Retention>',
      'EventHoldDuration',
    ],
  ] as const) {
    const refused = await client.put(path, { body });
    expect([refused.status, refused.code], body).toEqual([501, 'NotImplemented']);
    expect(refused.one('Message')).toMatch(new RegExp(`/${name} is not implemented`));
  }
  expect((await client.get('/bucket?replication')).status).toBe(404);
  expect((await client.get('/bucket?object-lock')).all('Rule')).toEqual([]);
  expect((await client.get('/bucket/key?retention')).status).toBe(404);
  const directory =
    '<CreateBucketConfiguration><Location><Type>AvailabilityZone</Type><Name>az</Name></Location>' +
    '<Bucket><DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket></CreateBucketConfiguration>';
  const made = await client.put('/other', { body: directory });
  expect([made.status, made.code]).toEqual([501, 'NotImplemented']);
  expect((await client.head('/other')).status).toBe(404);
  const control = controlling(world);
  for (const [name, inner] of [
    ['Scope', '<Prefixes><Prefix>a</Prefix></Prefixes>'],
    ['Tags', '<Tag><Key>a</Key><Value>b</Value></Tag>'],
  ]) {
    const body = `<CreateAccessPointRequest><Bucket>bucket</Bucket><${name}>${inner}</${name}></CreateAccessPointRequest>`;
    const refused = await control('PUT', '/photos', body);
    expect([refused.status, refused.code], body).toEqual([501, 'NotImplemented']);
  }
  expect((await control('GET', '')).all('Name')).toEqual([]);
  // The same names elsewhere are mistakes of the client.
  const misplaced = '<Retention><Not/></Retention>';
  expect((await client.put('/bucket/key?retention', { body: misplaced })).code).toBe('MalformedXML');
});
