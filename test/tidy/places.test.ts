/** What is declared once stays so: the files of src that name an example of each kind of thing that people add. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sinkKinds } from '../../src/ports/event-sink.ts';
import { sourceFiles } from './source-files.ts';

interface Example {
  /** What finds the example's names. */
  readonly named: RegExp;
  /** Where the example is declared: whoever adds another one writes into as many files. The compiler or a tidy test asks for each. */
  readonly places: readonly string[];
  /** Where the example is used, as its purpose asks. */
  readonly uses: readonly string[];
  /** What is to be reached. */
  readonly goal: number;
}

const examples: Readonly<Record<string, Example>> = {
  'an operation': {
    named: /\bListParts\b/,
    places: ['src/protocol/operations/operations.ts', 'src/handlers/bucket/listings.ts'],
    uses: [],
    goal: 3,
  },
  'an operation that policies name': {
    named: /\bGetBucketTagging\b/,
    places: [
      'src/protocol/operations/operations.ts',
      'src/handlers/bucket/bucket.ts',
      'src/auth/policy/statement.ts',
    ],
    uses: [],
    goal: 3,
  },
  'an operation of the operator API': {
    named: /\bListTraces\b/,
    places: ['src/protocol/admin/observability.ts', 'src/handlers/admin/traces.ts'],
    uses: ['src/handlers/admin/support-bundle.ts'],
    goal: 3,
  },
  'a target of events': {
    named: /\bsqs:|openSqs/,
    places: ['src/ports/event-sink.ts', 'src/backends/sinks/sqs.ts', 'src/backends/sinks/open-sinks.ts'],
    uses: [],
    goal: 3,
  },
  'a target of events with a client library': {
    named: /\bmqtt\b/,
    places: [
      'src/ports/event-sink.ts',
      'src/backends/sinks/mqtt.ts',
      'src/backends/sinks/open-sinks.ts',
      'src/base/optional-packages.ts',
      'src/runtime/compose/needed-packages.ts',
    ],
    uses: [],
    goal: 5,
  },
  'a worker': {
    named: /'health-history'|keepHealthHistory/,
    places: ['src/config/workers.ts', 'src/workers/registry.ts', 'src/workers/retention.ts'],
    uses: ['src/domain/storage/storage-health.ts'],
    goal: 3,
  },
  'a metric': {
    named: /svc_limited_requests/,
    places: ['src/metrics/request-metrics.ts', 'src/domain/quotas/rate-limiter.ts'],
    uses: [],
    goal: 2,
  },
  'a configuration': {
    named: /\b\w*BucketCors\b|\bbucketCors\b|\bcorsConfiguration\b|^ {2}cors,$/m,
    places: [
      'src/protocol/schemas/bucket.ts',
      'src/protocol/operations/operations.ts',
      'src/domain/configurations/families.ts',
      'src/handlers/bucket/cors.ts',
    ],
    uses: ['src/gateway/cross-origin.ts'],
    goal: 4,
  },
  'the actions and the error code of a configuration': {
    named: /\bGetBucketCORS\b|NoSuchCORSConfiguration/,
    places: ['src/auth/policy/statement.ts', 'src/base/errors.ts', 'src/protocol/errors.ts'],
    uses: ['src/handlers/bucket/cors.ts', 'src/protocol/operations/operations.ts'],
    goal: 3,
  },
};

const sources = new Map(sourceFiles().map((path) => [path, readFileSync(path, 'utf8')]));

test.each(Object.entries(examples))('%s is declared in these places and no others', (what, example) => {
  const { named, places, uses, goal } = example;
  const found = [...sources].filter(([, text]) => named.test(text)).map(([path]) => path);
  console.log(`${what}: ${places.length} places (goal ${goal})`);
  expect(found, 'a place that has gone is struck from the table, and none is added').toEqual(
    [...places, ...uses].sort(),
  );
});

const events = readFileSync('docs/operations/events.md', 'utf8');

test.each(Object.entries(sinkKinds))(
  'docs/operations/events.md names the schemes and fields of the target %s',
  (type, { schemes, needs, takes, modes = [] }) => {
    const row = events.split('\n').find((line) => line.startsWith(`| \`${type}\` |`)) ?? '';
    const ofAll = ['username', 'password', 'token', 'caFile', 'certFile', 'keyFile'];
    const own = [...needs, ...takes].filter((field) => !ofAll.includes(field));
    // A second name of a scheme need not be told.
    const told = schemes.filter((scheme) => scheme !== 'postgresql');
    const missing = [...told, ...own, ...modes].filter((name) => !row.includes(`\`${name}\``));
    expect(missing).toEqual([]);
  },
);
