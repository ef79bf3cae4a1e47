/** rclone's own integration tests of its S3 backend (`go test ./backend/s3` at the pinned version). */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'vitest';
import { readGoOutcomes } from './outcomes.ts';
import { expectSuite, region, type SuiteWorld, suiteMs, suitesHome } from './world.ts';

/** Below this the suite has not run as a whole: it had 101 leaves that passed when it was pinned. */
const passedMin = 95;

test('every integration test of rclone’s S3 backend passes', { timeout: suiteMs }, async () => {
  const run = async ({ server, user, home, run: runProgram }: SuiteWorld) => {
    const config = join(home, 'rclone.conf');
    const settings = {
      type: 's3',
      provider: 'Other',
      endpoint: server.url,
      region,
      access_key_id: user.accessKey,
      secret_access_key: user.secretKey,
      // CreateBucket of an existing bucket of the same owner in us-east-1 answers 200, as in the public service.
      use_already_exists: 'true',
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
    writeFileSync(config, ['[TestS3]', ...lines].join('\n'));
    const output = await runProgram(
      join(suitesHome, 'rclone.test'),
      ['-test.v', '-test.run', 'TestIntegration$', '-remote', 'TestS3:'],
      // The tests look for files of the source tree that they were built from.
      { cwd: join(suitesHome, 'rclone-source/backend/s3'), env: { RCLONE_CONFIG: config } },
    );
    return { output, outcomes: readGoOutcomes };
  };
  await expectSuite({ passedMin, run });
});
