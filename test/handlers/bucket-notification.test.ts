/** PutBucketNotificationConfiguration: the events, filters and targets that it accepts. */
import { expect, test } from 'vitest';
import { openGateway } from '../support/gateway.ts';

const sinks = JSON.stringify([
  { id: 'hooks', accounts: ['*'], type: 'webhook', url: 'https://example.com/hook', token: 'hidden' },
  { id: 'jobs', accounts: ['*'], type: 'redis', url: 'redis://example.com', key: 'events' },
]);

const open = async () => {
  const world = await openGateway({ settings: { SVC_NOTIFY_TARGETS: sinks } });
  await world.client.put('/bucket');
  return world;
};
const path = '/bucket?notification';
const arn = (id: string, service = 'sqs') => `arn:aws:${service}:default:123456789012:${id}`;
const filter = (...rules: readonly (readonly [string, string])[]): string =>
  `<Filter><S3Key>${rules.map(([name, value]) => `<FilterRule><Name>${name}</Name><Value>${value}</Value></FilterRule>`).join('')}</S3Key></Filter>`;
interface Rule {
  readonly id?: string;
  readonly events?: readonly string[];
  readonly filter?: string;
  readonly arn?: string;
}
const queue = ({
  id,
  events = ['s3:ObjectCreated:*'],
  filter: inside = '',
  arn: to = arn('jobs'),
}: Rule): string =>
  `<QueueConfiguration>${id === undefined ? '' : `<Id>${id}</Id>`}${events.map((event) => `<Event>${event}</Event>`).join('')}${inside}<Queue>${to}</Queue></QueueConfiguration>`;
const body = (...rules: readonly string[]): string =>
  `<NotificationConfiguration>${rules.join('')}</NotificationConfiguration>`;

test('keeps queues, topics and functions that point to sinks, gives ids, and is emptied by an empty document', async () => {
  await using world = await open();
  const { client } = world;
  const empty = (await client.get(path)).text;
  expect(empty).toMatch(/<NotificationConfiguration xmlns="[^"]+"><\/NotificationConfiguration>$/);
  const put = await client.put(path, {
    body: body(
      queue({ id: 'q', filter: filter(['prefix', 'a/'], ['suffix', '.jpg']) }),
      `<TopicConfiguration><Event>s3:ObjectRemoved:Delete</Event><Topic>${arn('hooks', 'sns')}</Topic></TopicConfiguration>`,
      `<CloudFunctionConfiguration><Id>f</Id><Event>s3:ObjectAcl:Put</Event><CloudFunction>${arn('function:hooks', 'lambda')}</CloudFunction></CloudFunctionConfiguration>`,
    ),
  });
  expect([put.status, put.code]).toEqual([200, '']);
  const got = await client.get(path);
  expect(got.all('Event')).toEqual(['s3:ObjectRemoved:Delete', 's3:ObjectCreated:*', 's3:ObjectAcl:Put']);
  expect([got.all('Topic'), got.all('Queue')]).toEqual([[arn('hooks', 'sns')], [arn('jobs')]]);
  expect([got.all('Name'), got.all('Value')]).toEqual([
    ['prefix', 'suffix'],
    ['a/', '.jpg'],
  ]);
  expect(got.all('Id').slice(1)).toEqual(['q', 'f']);
  expect(got.all('Id')[0]).toMatch(/^.{8,}$/);
  expect((await client.put(path, { body: body() })).status).toBe(200);
  expect((await client.get(path)).text).toBe(empty);
});

test('refuses targets that are no sink, or another kind of thing', async () => {
  await using world = await open();
  for (const [to, message] of [
    [arn('nobody'), 'Unable to validate the following destination configurations'],
    [arn('JOBS'), 'Unable to validate the following destination configurations'],
    [arn('jobs', 'sns'), 'The ARN is not well formed'],
    ['jobs', 'The ARN is not well formed'],
    ['', 'The ARN is not well formed'],
    [`${arn('jobs')} `.repeat(2).trim(), 'The ARN is not well formed'],
  ] as const) {
    const put = await world.client.put(path, { body: body(queue({ arn: to })) });
    expect([to, put.status, put.code, put.one('Message')]).toEqual([to, 400, 'InvalidArgument', message]);
  }
  const unchecked = { '*-skip-destination-validation': 'true' };
  const unknown = body(queue({ arn: arn('nobody') }));
  expect((await world.client.put(path, { body: unknown, headers: unchecked })).status).toBe(400);
  expect((await world.client.get(path)).all('Queue')).toEqual([]);
});

test('refuses events, filters and ids that the public API does not know', async () => {
  await using world = await open();
  const refused: readonly (readonly [string, string, string])[] = [
    ['an unknown event', body(queue({ events: ['s3:ObjectCreated'] })), 'InvalidArgument'],
    ['an event in capitals', body(queue({ events: ['S3:OBJECTCREATED:*'] })), 'InvalidArgument'],
    ['no event', body(queue({ events: [] })), 'MalformedXML'],
    ['a filter by size', body(queue({ filter: filter(['size', '1']) })), 'InvalidArgument'],
    ['two prefixes', body(queue({ filter: filter(['prefix', 'a'], ['Prefix', 'b']) })), 'InvalidArgument'],
    ['a long prefix', body(queue({ filter: filter(['prefix', 'ü'.repeat(513)]) })), 'InvalidArgument'],
    ['a long id', body(queue({ id: 'i'.repeat(256) })), 'InvalidArgument'],
    [
      'an id twice',
      body(queue({ id: 'i' }), queue({ id: 'i', events: ['s3:ObjectRemoved:*'] })),
      'InvalidArgument',
    ],
  ];
  for (const [what, sent, code] of refused) {
    const put = await world.client.put(path, { body: sent });
    expect([what, put.status, put.code]).toEqual([what, 400, code]);
  }
  const bus = await world.client.put(path, { body: body('<EventBridgeConfiguration/>') });
  expect([bus.status, bus.code]).toEqual([501, 'NotImplemented']);
  const longest = body(queue({ id: 'i'.repeat(255), filter: filter(['PREFIX', 'ü'.repeat(512)]) }));
  expect((await world.client.put(path, { body: longest })).status).toBe(200);
});

test('refuses two rules that one event of one key would meet, and no others', async () => {
  await using world = await open();
  const put = async (...rules: readonly Rule[]) =>
    (await world.client.put(path, { body: body(...rules.map(queue)) })).status;
  const images = filter(['prefix', 'images/']);
  expect(await put({}, {})).toBe(400);
  expect(await put({}, { events: ['s3:ObjectCreated:Put'] })).toBe(400);
  expect(await put({}, { events: ['s3:ObjectRemoved:*'] })).toBe(200);
  expect(await put({ filter: images }, {})).toBe(400);
  expect(await put({ filter: images }, { filter: filter(['prefix', 'images/old/']) })).toBe(400);
  expect(await put({ filter: images }, { filter: filter(['prefix', 'docs/']) })).toBe(200);
  expect(await put({ filter: filter(['suffix', 'jpg']) }, { filter: filter(['suffix', '.jpg']) })).toBe(400);
  expect(await put({ filter: filter(['suffix', '.jpg']) }, { filter: filter(['suffix', '.png']) })).toBe(200);
  expect(
    await put(
      { filter: filter(['prefix', 'a'], ['suffix', 'x']) },
      { filter: filter(['prefix', 'b'], ['suffix', 'x']) },
    ),
  ).toBe(200);
  const both = ['s3:ObjectCreated:Put', 's3:ObjectCreated:Copy'];
  expect(await put({ events: both }, { events: ['s3:ObjectCreated:Post'] })).toBe(200);
});
