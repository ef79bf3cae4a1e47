/** Imports point one way: runtime → gateway, workers, backends → … → ports. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { sourceFiles } from './source-files.ts';

/** What each layer may import beside itself; `errors` and `base` are leaves that all may. Files of src itself count as layers. */
const layers: Readonly<Record<string, readonly string[]>> = {
  errors: [],
  base: [],
  /** The table of metrics: data. */
  metrics: [],
  ports: ['metrics'],
  protocol: [],
  metadata: ['ports'],
  signing: ['ports', 'protocol'],
  /** The stages of a request, and the readers of its headers, parameters and body. */
  request: ['auth', 'domain', 'metadata', 'protocol', 'ports', 'context'],
  // The client of an upstream speaks the S3 protocol.
  backends: ['ports', 'protocol', 'signing'],
  // For programs that operate gateways.
  'admin-client': ['backends', 'ports', 'protocol', 'signing'],
  config: ['ports'],
  context: ['ports', 'config'],
  telemetry: ['metrics', 'ports'],
  domain: ['metadata', 'ports', 'context', 'config'],
  auth: ['domain', 'metadata', 'protocol', 'ports', 'signing'],
  handlers: ['request', 'domain', 'metadata', 'protocol', 'ports', 'auth', 'context', 'config'],
  // Policies of buckets apply to services that write into buckets.
  workers: ['auth', 'domain', 'metadata', 'ports', 'context', 'config'],
  gateway: ['request', 'auth', 'handlers', 'protocol', 'domain', 'metadata', 'context', 'config', 'ports'],
  'admin-gateway': ['gateway', 'handlers', 'context'],
  runtime: [
    'adapters',
    'admin-gateway',
    'gateway-opener',
    'handlers',
    'admin-client',
    // The server for tests refuses requests before the gateway does.
    'request',
    'gateway',
    'workers',
    'backends',
    'auth',
    'domain',
    'protocol',
    // `sluice bucket-secret` derives the secrets that clients sign with.
    'signing',
    'config',
    'context',
    'telemetry',
    'ports',
    'mod',
    'portable-context',
    'metadata',
  ],
  'portable-context': ['backends', 'auth', 'domain', 'config', 'context', 'ports'],
  'setting-options': ['config'],
  'gateway-opener': [
    'gateway',
    'workers',
    'setting-options',
    'config',
    'context',
    'domain',
    'protocol',
    'signing',
    'ports',
  ],
  // `directory()` and `s3()` load the runtime's backends when they are used.
  'open-gateway': ['admin-gateway', 'gateway-opener', 'workers', 'runtime', 'portable-context', 'config'],
  adapters: ['gateway-opener'],
  mod: [
    'adapters',
    'admin-gateway',
    'gateway-opener',
    'open-gateway',
    'setting-options',
    'gateway',
    'workers',
    'backends',
    'auth',
    'domain',
    'config',
    'context',
    'ports',
    'protocol',
  ],
};

const layerOf = (path: string): string => (path.split('/')[1] ?? '').replace(/\.ts$/, '');

/** Types of configurations follow from the schemas of their XML. */
const typesOnly = /^import type \{[^}]*\} from '[./]*\/protocol\/schemas\/families\.ts';$/gm;

/** The files of `src` that a file imports, type imports included. */
const importsOf = (path: string, source: string): string[] =>
  [...source.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map(([, to = '']) =>
    posix.normalize(posix.join(posix.dirname(path), to)),
  );

function crossings(path: string, source: string): string[] {
  const layer = layerOf(path);
  const allowed = layers[layer];
  if (allowed === undefined) return [`${path}: ${layer} is no layer`];
  return importsOf(path, layer === 'domain' ? source.replaceAll(typesOnly, '') : source)
    .map(layerOf)
    .filter(
      (target) => target !== layer && target !== 'errors' && target !== 'base' && !allowed.includes(target),
    )
    .map((target) => `${path} imports ${target}`);
}

test('an import against the direction is reported', () => {
  expect(crossings('src/domain/quota.ts', `import { a } from '../handlers/x.ts';`)).toEqual([
    'src/domain/quota.ts imports handlers',
  ]);
  expect(crossings('src/metadata/objects/objects.ts', `import type { a } from '../ports/clock.ts'`)).toEqual(
    [],
  );
});

test('the domain takes types of configurations from their schemas, and nothing else of the protocol', () => {
  const report = (source: string) => crossings('src/domain/configurations/families.ts', source);
  expect(report(`import type { A } from '../../protocol/schemas/families.ts';`)).toEqual([]);
  for (const source of [
    `import { type A, b } from '../../protocol/schemas/families.ts';`,
    `import { b } from '../../protocol/schemas/families.ts';`,
    `import type { A } from '../../protocol/schemas/bucket.ts';`,
  ])
    expect(report(source)).toEqual(['src/domain/configurations/families.ts imports protocol']);
});

test('layers import in one direction', () => {
  expect(sourceFiles().flatMap((path) => crossings(path, readFileSync(path, 'utf8')))).toEqual([]);
});

/** Every circle of imports, as the list of its files. */
function circles(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const found: string[] = [];
  const walk = (path: string, above: readonly string[]): void => {
    const start = above.indexOf(path);
    if (start >= 0) found.push([...above.slice(start), path].join(' → '));
    if (start >= 0 || done.has(path)) return;
    for (const next of imports.get(path) ?? []) walk(next, [...above, path]);
    done.add(path);
  };
  for (const path of imports.keys()) walk(path, []);
  return found;
}

test('there are no import cycles', () => {
  const small = { a: ['b'], b: ['c'], c: ['b'], d: ['a'] };
  expect(circles(new Map(Object.entries(small)))).toEqual(['b → c → b']);
  const imports = sourceFiles().map((path) => [path, importsOf(path, readFileSync(path, 'utf8'))] as const);
  expect(circles(new Map(imports))).toEqual([]);
});

/**
 * The floors of `src/domain`, from the bottom to the top: a folder imports its own files and those of the lines before its own, types
 * included. Folders of one line do not import each other. Drawn in ARCHITECTURE.md, "Floors of the domain".
 */
const floors: readonly (readonly string[])[] = [
  ['lanes'],
  ['common'],
  ['configurations', 'clusters'],
  ['content', 'access', 'events'],
  ['quotas'],
  ['objects', 'iam'],
  ['rebalance'],
  ['uploads', 'deliveries'],
  ['buckets', 'lifecycle', 'inventory', 'replication'],
  ['fsck', 'event-deliveries'],
  ['scrub', 'usage'],
  ['storage'],
];

test('a folder of the domain imports lower floors only', () => {
  const height = new Map(
    floors.flatMap((folders, floor) => folders.map((folder) => [folder, floor] as const)),
  );
  const folderOf = (path: string): string => posix.relative('src/domain', posix.dirname(path));
  const hits = sourceFiles('src/domain').flatMap((path) => {
    const folder = folderOf(path);
    const floor = height.get(folder);
    if (floor === undefined) return [`${path}: ${folder} has no floor`];
    return importsOf(path, readFileSync(path, 'utf8'))
      .filter((target) => target.startsWith('src/domain/') && folderOf(target) !== folder)
      .filter((target) => (height.get(folderOf(target)) ?? floor) >= floor)
      .map((target) => `${path} imports ${target}`);
  });
  expect(hits).toEqual([]);
});

test('ARCHITECTURE.md draws the floors, in 250 lines at most', () => {
  const text = readFileSync('ARCHITECTURE.md', 'utf8');
  expect(text.split('\n').length).toBeLessThanOrEqual(251);
  const drawn = [...text.matchAll(/^\| (\d+) \| (.*) \|$/gm)].map(([, floor, folders = '']) => [
    Number(floor),
    [...folders.matchAll(/`([^`]+)`/g)].map(([, folder]) => folder),
  ]);
  expect(drawn.toReversed()).toEqual(floors.map((folders, floor) => [floor, folders]));
});

/** Handlers whose operation is about others: the configurations of all kinds, and summaries of what other operations show. */
const summaries = /^src\/handlers\/(table|\w+\/table|admin\/(configurations|status|support-bundle))\.ts$/;

test('a handler imports no file of other operations', () => {
  const sources = new Map(sourceFiles('src/handlers').map((path) => [path, readFileSync(path, 'utf8')]));
  const isOperation = (path: string): boolean => /^export const [A-Z]\w+\b/m.test(sources.get(path) ?? '');
  const hits = [...sources].flatMap(([path, source]) =>
    summaries.test(path) || !isOperation(path)
      ? []
      : importsOf(path, source)
          .filter(isOperation)
          .map((target) => `${path} imports ${target}`),
  );
  expect(hits).toEqual([]);
});

/** What the project card fixes, and what its tools look for there. A file that a program left behind is none of them. */
const topLevel =
  '.ci .dockerignore .gitignore ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE README.md bench biome.json console deno.json deploy docs engines examples package-lock.json package.json src test tsconfig.base.json tsconfig.build.json tsconfig.json tsconfig.runtime.json vitest.config.ts wrangler.toml';

test('nothing else is kept at the top level', () => {
  const { stdout } = spawnSync('git', ['ls-files'], {
    cwd: posix.join(import.meta.dirname, '../..'),
    encoding: 'utf8',
  });
  const entries = new Set(stdout.split('\n').flatMap((path) => path.split('/')[0] || []));
  expect([...entries].sort()).toEqual(topLevel.split(' ').sort());
});

/** The limit of entries in a folder. It does not apply to the top level of `src`. */
const entriesMax = 30;

test('a folder has 30 entries at most', () => {
  const entries = new Map<string, Set<string>>();
  for (const path of sourceFiles()) {
    const parts = path.split('/');
    for (let depth = 2; depth < parts.length; depth += 1) {
      const folder = parts.slice(0, depth).join('/');
      entries.set(folder, (entries.get(folder) ?? new Set()).add(parts[depth] as string));
    }
  }
  const crowded = [...entries].filter(([, names]) => names.size > entriesMax);
  expect(crowded.map(([folder, names]) => `${folder}: ${names.size}`)).toEqual([]);
});
