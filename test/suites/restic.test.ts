/** restic's tests of its S3 backend (`go test ./internal/backend/s3` at the pinned version). */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compareOutcomes, readGoOutcomes } from './outcomes.ts';
import { startSuiteWorld, suiteMs, suitesHome } from './world.ts';

/** Below this the suite has not run as a whole: it had 23 leaves that passed when it was pinned. */
const passedMin = 20;

test('every test of restic’s S3 backend passes', { timeout: suiteMs }, async () => {
  const world = await startSuiteWorld();
  try {
    const output = await world.run(
      join(suitesHome, 'restic.test'),
      ['-test.v', '-test.run', 'TestBackendS3'],
      {
        env: {
          RESTIC_TEST_S3_KEY: world.user.accessKey,
          RESTIC_TEST_S3_SECRET: world.user.secretKey,
          RESTIC_TEST_S3_REPOSITORY: `s3:${world.server.url}/restic-backend-tests`,
        },
      },
    );
    const { unexpectedFailures, passed } = compareOutcomes(readGoOutcomes(output), {});
    expect(unexpectedFailures, output.slice(-8_000)).toEqual([]);
    expect(passed, output.slice(-8_000)).toBeGreaterThanOrEqual(passedMin);
  } finally {
    await world.stop();
  }
});
