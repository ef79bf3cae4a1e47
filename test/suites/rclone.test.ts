/** rclone's own integration tests of its S3 backend (`go test ./backend/s3` at the pinned version). */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compareOutcomes, readGoOutcomes } from './outcomes.ts';
import { region, startSuiteWorld, suiteMs, suitesHome } from './world.ts';

/** Below this the suite has not run as a whole: it had 101 leaves that passed when it was pinned. */
const passedMin = 95;

test('every integration test of rclone’s S3 backend passes', { timeout: suiteMs }, async () => {
  const world = await startSuiteWorld();
  try {
    const { accessKey, secretKey } = world.user;
    const config = join(world.home, 'rclone.conf');
    const settings = {
      type: 's3',
      provider: 'Other',
      endpoint: world.server.url,
      region,
      access_key_id: accessKey,
      secret_access_key: secretKey,
      // CreateBucket of one's own bucket in us-east-1 answers 200, as the public service does.
      use_already_exists: 'true',
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
    writeFileSync(config, ['[TestS3]', ...lines].join('\n'));
    const output = await world.run(
      join(suitesHome, 'rclone.test'),
      ['-test.v', '-test.run', 'TestIntegration$', '-remote', 'TestS3:'],
      // The tests look for files of the source tree that they were built from.
      { cwd: join(suitesHome, 'rclone-source/backend/s3'), env: { RCLONE_CONFIG: config } },
    );
    const { unexpectedFailures, passed } = compareOutcomes(readGoOutcomes(output), {});
    expect(unexpectedFailures, output.slice(-8_000)).toEqual([]);
    expect(passed, output.slice(-8_000)).toBeGreaterThanOrEqual(passedMin);
  } finally {
    await world.stop();
  }
});
