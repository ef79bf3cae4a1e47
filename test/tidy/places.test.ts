/** What is declared once stays so: the files of src that name an example of each kind of thing that people add. */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { keyProviderNames } from '../../src/config/keys.ts';
import { findingKinds } from '../../src/domain/fsck/findings.ts';
import { audit } from '../../src/metadata/records/audit.ts';
import { buckets } from '../../src/metadata/tables.ts';
import { sinkKinds } from '../../src/ports/event-sink.ts';
import { stages } from '../../src/ports/trace.ts';
import { checksumNames } from '../../src/protocol/schemas/common.ts';
import { commandNames } from '../../src/runtime/cli/cli-commands.ts';
import { sourceFiles } from './source-files.ts';

interface Example {
  /** What finds the example's names. */
  readonly named: RegExp;
  /** Where the example is declared: a further one is written into as many files. The compiler or a tidy test asks for each. */
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
  'a checksum algorithm': {
    named: /xxhash128|hashXxh3/i,
    places: [
      'src/protocol/schemas/common.ts',
      'src/ports/cryptography.ts',
      'src/domain/content/digests.ts',
      'src/backends/crypto/native-hasher.ts',
      'src/backends/crypto/portable.ts',
      'src/backends/crypto/xxh3.ts',
    ],
    uses: [],
    goal: 6,
  },
  // A test asks for its columns in test/vectors/record-columns.json.
  'a table of records': {
    named: /\breplicationPeers\b/,
    places: ['src/metadata/records/replication-peers.ts', 'src/metadata/tables.ts'],
    uses: ['src/metadata/background/replication.ts'],
    goal: 2,
  },
  // `versionColumns` has its choices; the others are where a column is named that chose everything.
  'a column of versions': {
    named: /\bversionColumns\b|\bcheckColumns\(|\bCheckedColumns<'/,
    places: [
      'src/metadata/tables.ts',
      'src/domain/objects/write-object.ts',
      'src/domain/objects/delete-object.ts',
      'src/domain/objects/commit-replica.ts',
      'src/domain/fsck/rebuild.ts',
      'src/domain/storage/import.ts',
      'src/domain/uploads/complete-upload.ts',
      'src/domain/replication/send-replica.ts',
      'src/handlers/object/replicate.ts',
      'src/handlers/admin/objects.ts',
    ],
    uses: [],
    goal: 10,
  },
  'a storage class': {
    named: /DEEP_ARCHIVE/,
    places: ['src/ports/storage-classes.ts'],
    uses: [],
    goal: 1,
  },
  'a field of inventories': {
    named: /\bBucketKeyStatus\b/,
    places: ['src/protocol/schemas/inventory.ts', 'src/domain/inventory/rows.ts'],
    uses: [],
    goal: 2,
  },
  'a canned ACL': {
    named: /\bbucket-owner-full-control\b/,
    places: ['src/domain/access/acl.ts'],
    uses: ['src/auth/service-write.ts'],
    goal: 1,
  },
  // Its column, who sets it, the reply of the operator API, and the exports. A test below asks for the console.
  'a column of the audit log': {
    named: /\bAuditedSession\b|\bauditedSession\b|\bdescribeLimits\b/,
    places: [
      'src/metadata/records/audit.ts',
      'src/gateway/recording.ts',
      'src/protocol/admin/audit.ts',
      'src/domain/events/audit-formats.ts',
    ],
    uses: ['src/handlers/admin/explain-decision.ts', 'src/protocol/admin/access.ts'],
    goal: 4,
  },
  'a kind of encryption': {
    named: /'customer'|\bcustomer: |\bencryptionNames\b/,
    places: [
      'src/metadata/objects/properties.ts',
      'src/domain/content/requested-encryption.ts',
      'src/domain/content/wrapped-key.ts',
      'src/domain/inventory/rows.ts',
      'src/domain/replication/send-replica.ts',
      'src/handlers/object/encryption-headers.ts',
      'src/handlers/admin/objects.ts',
    ],
    uses: [
      'src/domain/objects/amend-version.ts',
      'src/domain/replication/deliver-tasks.ts',
      'src/domain/replication/send-to-service.ts',
      'src/handlers/object/implied-actions.ts',
    ],
    goal: 7,
  },
  'a condition of lifecycle rules': {
    named: /\bObjectSizeLessThan\b/,
    places: ['src/protocol/schemas/lifecycle.ts', 'src/domain/configurations/rule-filter.ts'],
    // The two bounds of a size exclude each other.
    uses: ['src/handlers/bucket/lifecycle.ts'],
    goal: 2,
  },
  'a metadata backend': {
    named: /'ordered-kv'/,
    places: ['src/config/metadata.ts', 'src/config/checks.ts', 'src/runtime/compose/open-metadata.ts'],
    // Generated.
    uses: ['src/setting-options.ts'],
    goal: 3,
  },
  // What else reads a filter's elements would not be asked for a further one.
  'a condition of replication rules': {
    named: /\bruleFilter\(tag, \{\}|[Ff]ilter\??\.(?:And|Tag)\b|\bAnd\??\.Tag\b|\{ And\b/,
    places: ['src/protocol/schemas/replication.ts', 'src/domain/configurations/rule-filter.ts'],
    uses: [],
    goal: 2,
  },
  // The column is written by hand; the compiler asks for the others.
  'a measure of the usage of a day': {
    named: /\bobjectCountMax\b/,
    places: [
      'src/metadata/records/usage.ts',
      'src/domain/usage/samples.ts',
      'src/domain/usage/export-formats.ts',
      'src/handlers/admin/usage.ts',
      'src/protocol/admin/usage.ts',
    ],
    uses: [],
    goal: 5,
  },
  'a name of filter rules of notifications': {
    named: /^ {2}suffix: \{$|'suffix'|\bFilterRule\b[^\n]*\.find\(/m,
    places: ['src/domain/configurations/notification.ts'],
    uses: [],
    goal: 1,
  },
  // A test below asks for docs/operations/fsck.md.
  'a kind of finding of fsck': {
    named: /kind: 'shared'|^ {2}shared: \{ isLoss/m,
    places: ['src/domain/fsck/findings.ts', 'src/domain/fsck/owners.ts'],
    uses: [],
    goal: 2,
  },
  'a data backend': {
    named: /'cluster-pool'/,
    places: ['src/config/data.ts', 'src/runtime/compose/compose-bytes.ts'],
    // Generated.
    uses: ['src/setting-options.ts'],
    goal: 2,
  },
  'a key provider': {
    named: /'cloud-kms'|\bcloudKms\b/,
    places: [
      'src/config/keys.ts',
      'src/runtime/compose/open-keys.ts',
      'src/protocol/admin/storage.ts',
      'src/backends/keys/cloud-kms.ts',
    ],
    // Generated.
    uses: ['src/setting-options.ts'],
    goal: 4,
  },
  'a condition key': {
    named: /\baws:EpochTime\b/,
    places: ['src/auth/policy/keys.ts', 'src/auth/facts.ts'],
    uses: [],
    goal: 2,
  },
  'a stage of requests that traces show': {
    named: /'authorize'\)|'authorize', 'body'/,
    places: ['src/ports/trace.ts', 'src/gateway/serve.ts'],
    uses: [],
    goal: 2,
  },
};

const sources = new Map(sourceFiles().map((path) => [path, readFileSync(path, 'utf8')]));

test.each(Object.entries(examples))('%s is declared in these places and no others', (what, example) => {
  const { named, places, uses, goal } = example;
  const found = [...sources].filter(([, text]) => named.test(text)).map(([path]) => path);
  console.log(`${what}: ${places.length} places (goal ${goal})`);
  expect(places.length).toBeLessThanOrEqual(goal);
  expect(found, 'a place that has gone is struck from the table, and none is added').toEqual(
    [...places, ...uses].sort(),
  );
});

test('no file of the console lists checksum algorithms: the headers of a reply name the one that an object has', () => {
  const named = new RegExp(`\\b(?:${checksumNames.join('|')})\\b`, 'gi');
  const found = sourceFiles('console').filter(
    (path) => new Set(readFileSync(path, 'utf8').toUpperCase().match(named)).size > 1,
  );
  expect(found).toEqual([]);
});

test('docs/operations/traces.md names the stages of a request, in their order', () => {
  const [, told = ''] =
    /how long a request spent in each stage \(([^)]*)\)/.exec(
      readFileSync('docs/operations/traces.md', 'utf8'),
    ) ?? [];
  expect(told).toBe(stages.map((stage) => `\`${stage}\``).join(', '));
});

test('docs/operations/fsck.md has a row for each kind of finding', () => {
  const told = [
    ...readFileSync('docs/operations/fsck.md', 'utf8').matchAll(/^\| (`[a-z]+`(?:, `[a-z]+`)*) \|/gm),
  ]
    .flatMap(([, names = '']) => names.split(', '))
    .map((name) => name.replaceAll('`', ''));
  const backends = ['file', 'memory', 'cluster-pool', 'upstream-store'];
  expect(told.filter((name) => !backends.includes(name)).sort()).toEqual(Object.keys(findingKinds).sort());
});

test('docs/operations/keys.md has a row for each key provider', () => {
  const [, , table = ''] = readFileSync('docs/operations/keys.md', 'utf8').split(/^(## Key providers)$/m);
  const [first = ''] = table.split('\nFor `local-hsm`');
  const told = [...first.matchAll(/^\| `([a-z0-9-]+)` \|/gm)].map(([, name]) => name);
  expect(told.sort()).toEqual([...keyProviderNames].sort());
});

test('a page of docs tells how to use each command of `sluice`', () => {
  const pages = readdirSync('docs', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('reference') && !name.startsWith('adr'))
    .map((name) => readFileSync(`docs/${name}`, 'utf8'))
    .join('\n');
  expect(commandNames.filter((name) => !pages.includes(`sluice ${name}`))).toEqual([]);
});

/** Elements that have no effect, and why. */
const withoutEffect: Readonly<Record<string, string>> = {
  SimplePrefix: 'the format of log keys where no other is chosen',
  GlacierJobParameters: 'holds Tier alone',
  Tier: 'a restore has one speed here',
};

test('an element of a schema is read outside of the schemas, or has no effect for a reason', () => {
  const declared = new Set(
    sourceFiles('src/protocol/schemas').flatMap((path) =>
      [...readFileSync(path, 'utf8').matchAll(/^\s+([A-Z]\w+): \w+[(,]/gm)].map(([, name = '']) => name),
    ),
  );
  expect(declared.size).toBeGreaterThan(200);
  const readers = [...sources].filter(([path]) => !/^src\/(?:protocol|runtime|backends)\//.test(path));
  const code = readers.map(([, text]) => text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')).join('\n');
  const words = new Set(code.match(/[A-Za-z]\w*/g));
  expect([...declared].filter((name) => !words.has(name)).sort()).toEqual(Object.keys(withoutEffect).sort());
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

/** Columns of the audit log that the console's panel of a row does not read by their name, and why. */
const notInDetails: Readonly<Record<string, string>> = {
  hour: 'a part of the time',
  slot: 'where the row is stored',
  action: 'the title of the panel',
  id: 'the reply has it as `requestId` and `page`',
  error: '`Status` gets the whole row',
};

test('the console shows each column of the audit log, but those with a reason', () => {
  const source = readFileSync('console/pages/audit/audit-row.tsx', 'utf8');
  const [, details = ''] = /export const Details = ([\s\S]*?)\n\);/.exec(source) ?? [];
  const isRead = (column: string) => new RegExp(`\\brow\\.${column}\\b`).test(details);
  expect(
    Object.keys(audit.columns)
      .filter((column) => !isRead(column))
      .sort(),
  ).toEqual(Object.keys(notInDetails).sort());
  expect(details).toContain('<Status key="status" {...row} />');
  expect(isRead('requestId')).toBe(true);
});

/** Columns of `buckets` that GetBucket and ListBuckets do not read, and why. */
const notInBuckets: Readonly<Record<string, string>> = {
  generation: 'a fence',
  closedAt: 'set while a DeleteBucket runs',
  ageSlots: 'a layout of the age index',
  accountQuota: 'the epoch of a quota',
  userQuota: 'the same',
  creatorId: 'an id that `creator` shows as a name',
  ownedSince: 'what owners may read is decided by it',
};

test('the operator API shows each column of buckets, but those with a reason', () => {
  const source = readFileSync('src/handlers/admin/buckets.ts', 'utf8');
  const isRead = (column: string) => new RegExp(`\\brow\\.${column}\\b`).test(source);
  expect(
    Object.keys(buckets.columns)
      .filter((column) => !isRead(column))
      .sort(),
  ).toEqual(Object.keys(notInBuckets).sort());
});

test('docs/console.md has a row for each operation that a page of the console begins with', () => {
  const table = readFileSync('docs/console.md', 'utf8').split('\n## Pictures')[0] ?? '';
  const source = readFileSync('console/app/pages.ts', 'utf8');
  // A row without `load` has no page.
  const rows = source.matchAll(/\bneeds: \[([^\]]*)\],[^}]*\bload:/g);
  const needs = [...rows].flatMap(([, names = '']) => namesIn(names));
  expect(needs.length).toBeGreaterThan(20);
  expect(needs.filter((name) => !table.includes(`\`admin:${name}\``))).toEqual([]);
});

const namesIn = (list: string): readonly string[] =>
  [...list.matchAll(/'(\w+)'/g)].map(([, name = '']) => name);

test('the danger zone of a bucket is for the same operations in the rail, on its page and in docs/console.md', () => {
  const page = readFileSync('console/pages/danger/danger.tsx', 'utf8');
  const [, listed = ''] = /const dangers = \[([^\]]*)\]/.exec(page) ?? [];
  const [, further = ''] = /const asked = \[([^\]]*)\]/.exec(page) ?? [];
  const dangers = namesIn(listed);
  const offered = [...page.matchAll(/\{may\('(\w+)'\) && </g)].map(([, name]) => name);
  expect(dangers.length).toBeGreaterThan(3);
  expect(offered).toEqual(dangers);
  const [, needs = ''] =
    / danger: \{[^}]*needs: \[([^\]]*)\]/.exec(readFileSync('console/app/pages.ts', 'utf8')) ?? [];
  expect(namesIn(needs)).toEqual(dangers);
  const row = readFileSync('docs/console.md', 'utf8')
    .split('\n')
    .find((line) => line.startsWith('| Danger zone of a bucket |'));
  const told = [...(row ?? '').matchAll(/`admin:(\w+)`/g)].map(([, name]) => name);
  expect(told.sort()).toEqual([...dangers, ...namesIn(further), 'ListAccounts'].sort());
});
