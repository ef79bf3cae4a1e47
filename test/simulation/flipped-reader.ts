/**
 * A separate process over a damaged data directory: reads every object, lists the bucket, runs `fsck --deep`, and prints the
 * results. lmdb may end the process on a damaged page, which must not end the test.
 */

import { createGateway } from '../../src/admin-gateway.ts';
import { configWith } from '../../src/config/read-config.ts';
import { runFsck } from '../../src/domain/fsck/fsck.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { alice } from '../support/gateway.ts';
import { openClient } from '../support/gateway-client.ts';

const [directory = '', ...keys] = process.argv.slice(2);
const tell = (told: object): void => {
  process.stdout.write(`${JSON.stringify(told)}\n`);
};

const { context, close } = await compose(configWith({ SVC_DATA_DIR: directory, SVC_FSYNC: 'never' }), {
  credentials: [alice],
  clock: systemClock,
});
const client = openClient(createGateway(context, { basePath: '' }), systemClock, { credential: alice });
for (const key of keys) {
  // An incomplete body does not count as an answer.
  const answer = await client.get(`/bucket/${key}`).catch(() => undefined);
  tell({
    key,
    status: answer?.status ?? 0,
    code: answer?.code,
    etag: answer?.header('etag'),
    mark: answer?.header('x-amz-meta-mark'),
    body: answer?.text,
  });
}
const listing = await client.get('/bucket?list-type=2');
tell({ listed: { status: listing.status, keys: listing.all('Key'), etags: listing.all('ETag') } });
await runFsck(context, (finding) => tell({ finding }), { mode: { fix: false, drop: false, deep: true } });
tell({ isDone: true });
await close();
