/** PutBucketLifecycleConfiguration: the rules that it accepts, and values at and beyond each limit. */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { documents } from '../../src/metadata/buckets/records.ts';
import { backends, openGateway } from '../support/gateway.ts';

const path = '/bucket?lifecycle';
const open = async (backend: (typeof backends)[number] = 'memory') => {
  const world = await openGateway({ backend });
  await world.client.put('/bucket');
  return world;
};
const body = (...rules: readonly string[]): string =>
  `<LifecycleConfiguration>${rules.join('')}</LifecycleConfiguration>`;
const everything = '<Filter/>';
const rule = (inside: string, filter = everything): string =>
  `<Rule><Status>Enabled</Status>${filter}${inside}</Rule>`;
const days = (count: number | string): string => `<Expiration><Days>${count}</Days></Expiration>`;
const move = (to: string, count: number): string =>
  `<Transition><Days>${count}</Days><StorageClass>${to}</StorageClass></Transition>`;
const moveOn = (to: string, date: string): string =>
  `<Transition><Date>${date}</Date><StorageClass>${to}</StorageClass></Transition>`;
const noncurrent = (inside: string): string =>
  `<NoncurrentVersionExpiration>${inside}</NoncurrentVersionExpiration>`;
const moveOld = (to: string, count: number): string =>
  `<NoncurrentVersionTransition><NoncurrentDays>${count}</NoncurrentDays><StorageClass>${to}</StorageClass></NoncurrentVersionTransition>`;
const abort =
  '<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>';
const tag = (key: string, value = 'v'): string => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`;
const marker = '<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>';

const accepted: Readonly<Record<string, string>> = {
  'a date at midnight': rule('<Expiration><Date>2030-01-01</Date></Expiration>'),
  'a date at midnight elsewhere, which is one here': rule(
    '<Expiration><Date>2030-01-01T02:00:00+02:00</Date></Expiration>',
  ),
  'the longest expiration': rule(days(2_147_483_647)),
  'moves in order, then expiration': rule(move('STANDARD_IA', 1) + move('GLACIER', 2) + days(3)),
  'moves in another order of elements': rule(move('GLACIER', 2) + move('STANDARD_IA', 1)),
  'a move at once': rule(move('GLACIER', 0)),
  'moves and expiration at dates': rule(
    `${moveOn('GLACIER', '2030-01-01')}<Expiration><Date>2030-01-02</Date></Expiration>`,
  ),
  'expiration of markers': rule(marker, '<Filter><Prefix>a</Prefix></Filter>'),
  'old versions kept by number': rule(
    noncurrent('<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>100</NewerNoncurrentVersions>'),
  ),
  'old versions moved, then expired': rule(
    moveOld('STANDARD_IA', 0) + moveOld('GLACIER', 1) + noncurrent('<NoncurrentDays>2</NoncurrentDays>'),
  ),
  'uploads aborted under a prefix of the first version': rule(abort, '<Prefix>a</Prefix>'),
  'two conditions together': rule(days(1), `<Filter><And><Prefix>a</Prefix>${tag('k')}</And></Filter>`),
  'two tags together': rule(days(1), `<Filter><And>${tag('k')}${tag('l')}</And></Filter>`),
  'sizes that something can have': rule(
    days(1),
    '<Filter><And><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan><ObjectSizeLessThan>2</ObjectSizeLessThan></And></Filter>',
  ),
  'a class by the name of the specification': rule(
    '<Transition><Days>1</Days><StorageClass>archive</StorageClass></Transition>',
  ),
};

const refused: Readonly<Record<string, readonly [body: string, code: string]>> = {
  'no rule': ['', 'MalformedXML'],
  'no action': [rule(''), 'InvalidRequest'],
  'no filter and no prefix': [rule(days(1), ''), 'MalformedXML'],
  'filter and prefix': [rule(days(1), '<Filter/><Prefix></Prefix>'), 'MalformedXML'],
  'And beside a condition': [
    rule(days(1), `<Filter><Prefix>a</Prefix><And><Prefix>b</Prefix>${tag('k')}</And></Filter>`),
    'MalformedXML',
  ],
  'And with no condition': [rule(days(1), '<Filter><And/></Filter>'), 'MalformedXML'],
  'And with one prefix': [rule(days(1), '<Filter><And><Prefix>a</Prefix></And></Filter>'), 'MalformedXML'],
  'And with one tag': [rule(days(1), `<Filter><And>${tag('k')}</And></Filter>`), 'MalformedXML'],
  'a prefix and a tag without And': [
    rule(days(1), `<Filter><Prefix></Prefix>${tag('k')}</Filter>`),
    'MalformedXML',
  ],
  'a prefix and a size without And': [
    rule(days(1), '<Filter><Prefix></Prefix><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>'),
    'MalformedXML',
  ],
  'two sizes without And': [
    rule(
      days(1),
      '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan></Filter>',
    ),
    'MalformedXML',
  ],
  'a tag key twice': [
    rule(days(1), `<Filter><And>${tag('k')}${tag('k', 'w')}</And></Filter>`),
    'InvalidRequest',
  ],
  'a tag without a key': [rule(days(1), `<Filter>${tag('')}</Filter>`), 'InvalidRequest'],
  'a long tag key': [rule(days(1), `<Filter>${tag('k'.repeat(129))}</Filter>`), 'InvalidRequest'],
  'a long tag value': [rule(days(1), `<Filter>${tag('k', 'v'.repeat(257))}</Filter>`), 'InvalidRequest'],
  'a long prefix': [rule(days(1), `<Filter><Prefix>${'ü'.repeat(513)}</Prefix></Filter>`), 'InvalidRequest'],
  'sizes that nothing has': [
    rule(
      days(1),
      '<Filter><And><ObjectSizeGreaterThan>2</ObjectSizeGreaterThan><ObjectSizeLessThan>2</ObjectSizeLessThan></And></Filter>',
    ),
    'InvalidRequest',
  ],
  'days of zero': [rule(days(0)), 'InvalidArgument'],
  'negative days': [rule(days(-1)), 'InvalidArgument'],
  'more days than there are': [rule(days(2_147_483_648)), 'InvalidArgument'],
  'days that are no number': [rule(days('1.5')), 'MalformedXML'],
  'days and date': [rule('<Expiration><Days>1</Days><Date>2030-01-01</Date></Expiration>'), 'MalformedXML'],
  'days and markers': [
    rule(
      '<Expiration><Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>',
    ),
    'MalformedXML',
  ],
  'an expiration of nothing': [rule('<Expiration/>'), 'MalformedXML'],
  'a date in the day': [
    rule('<Expiration><Date>2030-01-01T00:00:01Z</Date></Expiration>'),
    'InvalidArgument',
  ],
  'a date that no calendar has': [rule('<Expiration><Date>2030-02-30</Date></Expiration>'), 'MalformedXML'],
  'markers by tag': [rule(marker, `<Filter>${tag('k')}</Filter>`), 'InvalidRequest'],
  'markers by size': [
    rule(marker, '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>'),
    'InvalidRequest',
  ],
  'uploads by tag': [rule(abort, `<Filter>${tag('k')}</Filter>`), 'InvalidRequest'],
  'uploads after no day': [rule(abort.replace('7', '0')), 'InvalidArgument'],
  'a move to no class': [rule(move('COLD', 1)), 'MalformedXML'],
  'a move back': [rule(move('STANDARD', 1)), 'MalformedXML'],
  'a move of no time': [
    rule('<Transition><StorageClass>GLACIER</StorageClass></Transition>'),
    'MalformedXML',
  ],
  'a move in the past of days': [rule(move('GLACIER', -1)), 'InvalidArgument'],
  'two moves to one class': [rule(move('GLACIER', 1) + move('GLACIER', 2)), 'InvalidRequest'],
  'moves against their order': [rule(move('GLACIER', 1) + move('STANDARD_IA', 2)), 'InvalidArgument'],
  'two moves on one day': [rule(move('STANDARD_IA', 2) + move('GLACIER', 2)), 'InvalidArgument'],
  'expiration with the move': [rule(move('GLACIER', 2) + days(2)), 'InvalidArgument'],
  'days here and a date there': [rule(moveOn('GLACIER', '2030-01-01') + days(2)), 'InvalidRequest'],
  'old versions of no age': [
    rule(noncurrent('<NewerNoncurrentVersions>1</NewerNoncurrentVersions>')),
    'MalformedXML',
  ],
  'old versions of no day': [rule(noncurrent('<NoncurrentDays>0</NoncurrentDays>')), 'InvalidArgument'],
  'no old version kept': [
    rule(
      noncurrent('<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>0</NewerNoncurrentVersions>'),
    ),
    'InvalidArgument',
  ],
  'too many old versions kept': [
    rule(
      noncurrent('<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>101</NewerNoncurrentVersions>'),
    ),
    'InvalidArgument',
  ],
  'old versions kept by a rule of the first version': [
    rule(
      noncurrent('<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>1</NewerNoncurrentVersions>'),
      '<Prefix></Prefix>',
    ),
    'InvalidRequest',
  ],
  'old versions expired with their move': [
    rule(moveOld('GLACIER', 2) + noncurrent('<NoncurrentDays>2</NoncurrentDays>')),
    'InvalidArgument',
  ],
  'rules of both versions': [rule(days(1)) + rule(days(1), '<Prefix>a</Prefix>'), 'InvalidRequest'],
  'an id twice': [`${rule(days(1), '<Filter/><ID>a</ID>')}`.repeat(2), 'InvalidArgument'],
  'a long id': [rule(days(1), `<Filter/><ID>${'i'.repeat(256)}</ID>`), 'InvalidArgument'],
};

test.each(Object.entries(accepted))('accepts %s', async (_, sent) => {
  await using world = await open();
  const put = await world.client.put(path, { body: body(sent) });
  expect([put.status, put.text]).toEqual([200, '']);
});

test.each(Object.entries(refused))('refuses %s', async (_, [sent, code]) => {
  await using world = await open();
  const put = await world.client.put(path, { body: body(sent) });
  expect([put.status, put.code]).toEqual([400, code]);
  expect((await world.client.get(path)).status).toBe(404);
});

test('gives a rule without an id a permanent one', async () => {
  await using world = await open();
  await world.client.put(path, {
    body: body(rule(days(1)), rule(days(2), `<Filter/><ID>${'i'.repeat(255)}</ID>`)),
  });
  const ids = (await world.client.get(path)).all('ID');
  expect(ids[0]).toMatch(/^.{8,}$/);
  expect(ids[1]).toHaveLength(255);
  expect((await world.client.get(path)).all('ID')).toEqual(ids);
});

test('keeps a class by its wire name, and which small objects move', async () => {
  await using world = await open();
  const { client } = world;
  const sent = body(accepted['a class by the name of the specification'] ?? '');
  const name = '*-transition-default-minimum-object-size';
  expect((await client.put(path, { body: sent })).header(name)).toBe('all_storage_classes_128K');
  const got = await client.get(path);
  expect([got.one('StorageClass'), got.header(name)]).toEqual(['GLACIER', 'all_storage_classes_128K']);
  const headers = { [name]: 'varies_by_storage_class' };
  expect((await client.put(path, { body: sent, headers })).header(name)).toBe('varies_by_storage_class');
  expect((await client.get(path)).header(name)).toBe('varies_by_storage_class');
  const wrong = await client.put(path, { body: sent, headers: { [name]: 'none' } });
  expect([wrong.status, wrong.code]).toEqual([400, 'InvalidArgument']);
});

describe.each(backends)('on %s', (backend) => {
  test('a bucket accepts 1,000 rules and not 1,001, and the document of the former rules is removed', async () => {
    await using world = await open(backend);
    const { client, context } = world;
    const full = (count: number, prefix: string) =>
      body(
        ...Array.from({ length: count }, (_, at) =>
          rule(days(at + 1), `<ID>r${at}</ID><Filter><Prefix>${prefix}${at}</Prefix></Filter>`),
        ),
      );
    const prefix = 'p'.repeat(800);
    expect((await client.put(path, { body: full(1000, prefix) })).status).toBe(200);
    const former = (await openBucket(context, 'bucket')).documents['lifecycle'] ?? '';
    const got = await client.get(path);
    expect(got.all('ID')).toHaveLength(1000);
    expect(got.all('Prefix')[999]).toBe(`${prefix}999`);
    const tooMany = await client.put(path, { body: full(1001, '') });
    expect([tooMany.status, tooMany.code]).toEqual([400, 'InvalidRequest']);
    expect((await client.put(path, { body: full(1000, 'q') })).status).toBe(200);
    expect(await context.metadata.scan({ table: documents, in: { id: former } }).next(9)).toEqual([]);
    expect((await client.delete(path)).status).toBe(204);
  });
});

const above = '<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>';
const below = '<ObjectSizeLessThan>100</ObjectSizeLessThan>';
const under = '<Prefix>logs/</Prefix>';
const anywhere = '<Prefix></Prefix>';
/** Every form of a filter, and the objects below that it selects. */
const filters: readonly (readonly [filter: string, expiring: readonly string[]])[] = [
  ['<Filter/>', ['a', 'logs/big', 'logs/small', 'logs/tagged', 'tagged']],
  ['<Prefix/>', ['a', 'logs/big', 'logs/small', 'logs/tagged', 'tagged']],
  [under, ['logs/big', 'logs/small', 'logs/tagged']],
  [`<Filter>${anywhere}</Filter>`, ['a', 'logs/big', 'logs/small', 'logs/tagged', 'tagged']],
  [`<Filter>${under}</Filter>`, ['logs/big', 'logs/small', 'logs/tagged']],
  [`<Filter>${tag('k')}</Filter>`, ['logs/tagged', 'tagged']],
  [`<Filter>${above}</Filter>`, ['a', 'logs/big', 'logs/tagged', 'tagged']],
  [`<Filter>${below}</Filter>`, ['a', 'logs/small', 'logs/tagged', 'tagged']],
  ['<Filter><Tag><Key>empty</Key></Tag></Filter>', ['tagged']],
  [`<Filter><And>${anywhere}${tag('k')}</And></Filter>`, ['logs/tagged', 'tagged']],
  [`<Filter><And>${anywhere}${above}</And></Filter>`, ['a', 'logs/big', 'logs/tagged', 'tagged']],
  [`<Filter><And>${under}${below}</And></Filter>`, ['logs/small', 'logs/tagged']],
  [`<Filter><And>${tag('k')}${tag('l')}</And></Filter>`, ['tagged']],
  [`<Filter><And>${under}${tag('k')}</And></Filter>`, ['logs/tagged']],
  [`<Filter><And>${above}${below}</And></Filter>`, ['a', 'logs/tagged', 'tagged']],
  [`<Filter><And>${under}${tag('k')}${above}${below}</And></Filter>`, ['logs/tagged']],
];

test.each(filters)(
  'the filter %s names just these objects, and is shown as it came',
  async (filter, expiring) => {
    await using world = await open();
    const { client } = world;
    expect((await client.put(path, { body: body(rule(days(1), filter)) })).status).toBe(200);
    const objects = {
      a: [10, ''],
      'logs/big': [100, ''],
      'logs/small': [5, ''],
      'logs/tagged': [10, 'k=v'],
      tagged: [10, 'k=v&l=v&empty='],
    } as const;
    const named: string[] = [];
    for (const [key, [size, tags]] of Object.entries(objects)) {
      const headers = { '*-tagging': tags };
      const put = await client.put(`/bucket/${key}`, { body: 'x'.repeat(size), headers });
      if (put.header('*-expiration') !== undefined) named.push(key);
    }
    expect(named).toEqual(expiring);
    const bare = (text: string) =>
      text.replaceAll(/<(\w+)\/>/g, '<$1></$1>').replaceAll('<Value></Value>', '');
    expect(bare((await client.get(path)).text)).toContain(bare(filter));
  },
);
