/** restic's tests of its S3 backend (`go test ./internal/backend/s3` at the pinned version). */
import { join } from 'node:path';
import { test } from 'vitest';
import { readGoOutcomes } from './outcomes.ts';
import { expectSuite, type SuiteWorld, suiteMs, suitesHome } from './world.ts';

/** Below this the suite has not run as a whole: it had 23 leaves that passed when it was pinned. */
const passedMin = 20;

test('every test of restic’s S3 backend passes', { timeout: suiteMs }, async () => {
  const run = async ({ server, user, run: runProgram }: SuiteWorld) => {
    const env = {
      RESTIC_TEST_S3_KEY: user.accessKey,
      RESTIC_TEST_S3_SECRET: user.secretKey,
      RESTIC_TEST_S3_REPOSITORY: `s3:${server.url}/restic-backend-tests`,
    };
    const args = ['-test.v', '-test.run', 'TestBackendS3'];
    const output = await runProgram(join(suitesHome, 'restic.test'), args, { env });
    return { output, outcomes: readGoOutcomes };
  };
  await expectSuite({ passedMin, run });
});
