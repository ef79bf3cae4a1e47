/** One request id in the reply, in every line of the log and in the rows that the request wrote (spec item 17). */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/buckets.ts';
import { findLiveHead } from '../../src/metadata/objects.ts';
import { type Fields, silentTelemetry } from '../../src/ports/telemetry.ts';
import { backends, openGateway } from '../support/gateway.ts';

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Fields;
}

async function loggedGateway(options: Parameters<typeof openGateway>[0] = {}) {
  const lines: Line[] = [];
  const telemetry = {
    ...silentTelemetry,
    log: (level: string, message: string, fields: Fields = {}) => void lines.push({ level, message, fields }),
  };
  return { world: await openGateway({ ...options, telemetry }), lines };
}

describe.each(backends)('on %s', (backend) => {
  test('a write tells its id in the reply, in the log and in its row', async () => {
    const { world, lines } = await loggedGateway({ backend });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    const put = await client.put('/bucket/key', { body: 'text' });
    const requestId = put.header('*-request-id');
    const bucket = await openBucket(world.context, 'bucket');
    expect((await findLiveHead(world.context.metadata, bucket, 'key'))?.row.requestId).toBe(requestId);
    expect(lines.at(-1)).toMatchObject({
      level: 'DEBUG',
      message: 'request answered',
      fields: {
        request_id: requestId,
        operation: 'PutObject',
        method: 'PUT',
        path: '/bucket/key',
        status: 200,
      },
    });
  });
});

test('every request has one such line, refused and failed ones too, and a failure has one at ERROR beside it', async () => {
  const { world, lines } = await loggedGateway({
    wrap: (context) => ({
      ...context,
      bytes: { ...context.bytes, write: () => Promise.reject(new Error('the disk is gone')) },
    }),
  });
  await using _ = world;
  const { client } = world;
  await client.put('/bucket');
  lines.length = 0;
  const refused = await client.get('/bucket/none');
  const failed = await client.put('/bucket/key', { body: 'text' });
  const answered = lines.filter(({ message }) => message === 'request answered');
  expect(answered.map(({ fields }) => [fields['request_id'], fields['status'], fields['code']])).toEqual([
    [refused.header('*-request-id'), 404, 'NoSuchKey'],
    [failed.header('*-request-id'), 500, 'InternalError'],
  ]);
  const errors = lines.filter(({ level }) => level === 'ERROR');
  expect(errors.map(({ fields }) => fields['request_id'])).toEqual([failed.header('*-request-id')]);
});
