/** Lifecycle actions in the access log of their bucket. */
import { expect, test } from 'vitest';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { logging, openLogs } from '../support/delivered-logs.ts';

const dayMs = 86_400_000;
const noEnd = new AbortController().signal;

async function open() {
  const logs = await openLogs('memory', { settings: { SVC_LIFECYCLE_RATE: '1000000' } });
  const { client, context } = logs.world;
  const put = async (path: string, body: string): Promise<void> => {
    const { status, text } = await client.put(path, { body });
    expect(status, text).toBe(200);
  };
  return Object.assign(logs, {
    client,
    versioned: () =>
      put(
        '/bucket?versioning',
        '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
      ),
    configure: (...rules: readonly string[]) =>
      put('/bucket?lifecycle', `<LifecycleConfiguration>${rules.join('')}</LifecycleConfiguration>`),
    /** The lines of a pass some days later, without those of requests. */
    async passAfter(days: number): Promise<string[]> {
      await context.lateWrites.flush();
      const before = (await logs.queued()).length;
      logs.clock.jump(days * dayMs);
      const unit = carryOutLifecycles(context);
      while ((await unit(noEnd)) === 'busy');
      return (await logs.queued())
        .slice(before)
        .map(({ line }) => line)
        .toSorted();
    },
  });
}
const rule = (id: string, inside: string, prefix = ''): string =>
  `<Rule><ID>${id}</ID><Status>Enabled</Status><Filter><Prefix>${prefix}</Prefix></Filter>${inside}</Rule>`;
const expires = '<Expiration><Days>1</Days></Expiration>';

/** `operation key "request" status error bytes size total turn-around "referer" "agent" version`. */
const fieldsOf = (line: string | undefined): readonly string[] =>
  / AmazonS3 [0-9A-Za-z]+ (.*)$/
    .exec(line ?? '')?.[1]
    ?.split(' ')
    .slice(0, 12) ?? [];
const noRequest = ['"-"', '-', '-', '-'];

test('an expiration, the abort of an upload and their place in the log', async () => {
  await using world = await open();
  const { client } = world;
  const aborts =
    '<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>';
  await world.configure(rule('r', expires + aborts));
  await client.put('/bucket/a%20b', { body: 'content' });
  await client.post('/bucket/upload?uploads');
  const [upload, object, ...others] = (await world.passAfter(3)).toSorted((a, b) =>
    a.includes('UPLOAD') ? -1 : b.includes('UPLOAD') ? 1 : 0,
  );
  expect(others).toEqual([]);
  expect(fieldsOf(upload)).toEqual([
    'S3.DELETE.UPLOAD',
    'upload',
    ...noRequest,
    '-',
    '-',
    '-',
    '"-"',
    '"-"',
    '-',
  ]);
  expect(fieldsOf(object)).toEqual([
    'S3.EXPIRE.OBJECT',
    'a%20b',
    ...noRequest,
    '7',
    '-',
    '-',
    '"-"',
    '"-"',
    '-',
  ]);
  expect(object).toMatch(/^\S+ bucket \[\d\d\/Feb\/2026:\d\d:\d\d:\d\d \+0000\] - AmazonS3 /);
  expect(object?.split(' ')).toHaveLength(27);
  await world.deliver();
  const delivered = await world.delivered();
  for (const line of [upload, object]) expect(delivered.filter((each) => each === line)).toHaveLength(1);
  expect(await world.passAfter(3)).toEqual([]);
});

test('with versioning: a delete marker, the removal of its version, and of the marker', async () => {
  await using world = await open();
  const { client } = world;
  await world.versioned();
  const removes =
    '<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>';
  await world.configure(rule('r', expires + removes));
  const put = await client.put('/bucket/key', { body: 'content' });
  const [marked, ...rest] = await world.passAfter(2);
  expect(rest).toEqual([]);
  const [marker] = (await client.get('/bucket?versions')).all('VersionId');
  expect([fieldsOf(marked)[0], fieldsOf(marked)[11]]).toEqual(['S3.CREATE.DELETEMARKER', marker]);
  const gone = (await world.passAfter(3))
    .map(fieldsOf)
    .toSorted(([, , , , , , a = ''], [, , , , , , b = '']) => (a < b ? -1 : 1));
  const removal = (size: string, version: string | undefined) => [
    ...['S3.EXPIRE.OBJECT', 'key', ...noRequest, size, '-', '-', '"-"', '"-"', version],
  ];
  expect(gone).toEqual([removal('-', marker), removal('7', put.header('*-version-id'))]);
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
});

test.each([
  ['STANDARD_IA', 'S3.TRANSITION_SIA.OBJECT'],
  ['ONEZONE_IA', 'S3.TRANSITION_ZIA.OBJECT'],
  ['INTELLIGENT_TIERING', 'S3.TRANSITION_INT.OBJECT'],
  ['GLACIER_IR', 'S3.TRANSITION_GIR.OBJECT'],
  ['GLACIER', 'S3.TRANSITION.OBJECT'],
  ['DEEP_ARCHIVE', 'S3.TRANSITION_GDA.OBJECT'],
])('a transition to %s is %s', async (storageClass, operation) => {
  await using world = await open();
  const moves = `<Transition><Days>1</Days><StorageClass>${storageClass}</StorageClass></Transition>`;
  const sizes = '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>';
  await world.configure(`<Rule><ID>r</ID><Status>Enabled</Status>${sizes}${moves}</Rule>`);
  await world.client.put('/bucket/key', { body: 'content' });
  const lines = await world.passAfter(2);
  expect(lines.map((line) => fieldsOf(line)[0])).toEqual([operation]);
  expect((await world.client.head('/bucket/key')).header('*-storage-class')).toBe(storageClass);
});

test('actions in a bucket whose log was ended write no line, and later ones do', async () => {
  await using world = await open();
  const { client } = world;
  await world.configure(rule('r', expires));
  await client.put('/bucket/key', { body: 'x' });
  await client.put('/bucket?logging', { body: '<BucketLoggingStatus/>' });
  expect(await world.passAfter(2)).toEqual([]);
  await client.put('/bucket?logging', { body: logging() });
  await client.put('/bucket/other', { body: 'x' });
  expect(await world.passAfter(2)).toHaveLength(1);
});
