/**
 * `node test/tidy/house.ts` prints how `src` is divided: its files and folders, what they share, what its lines are, and to which feature
 * they belong.
 */
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { sourceFiles } from './source-files.ts';

type LineKind = 'comments' | 'empty lines' | 'imports';

interface Source {
  readonly path: string;
  readonly folder: string;
  readonly lines: number;
  readonly kinds: Readonly<Record<LineKind, number>>;
  readonly exports: readonly string[];
  /** The names that the file imports, by the file that exports them; `*` where it imports all. */
  readonly imports: ReadonlyMap<string, readonly string[]>;
}

const declaration =
  /^export (?:abstract |async )?(?:function\*?|const|let|class|interface|type|enum) (\w+)/gm;
const importing = /(?:import|export)\s+(?:type\s+)?(\* as \w+|\{[^}]*\})\s*from\s*'(\.[^']+)'/g;
/** A lazy import names what it takes when it destructures; other ones take all. */
const importingLazily = /(?:const (\{[^}]*\}) = await )?import\(\s*'(\.[^']+)'/g;

const namesIn = (list: string): readonly string[] =>
  list.startsWith('*')
    ? ['*']
    : list
        .slice(1, -1)
        .split(',')
        .flatMap((name) => /^(?:type )?(\w+)/.exec(name.trim())?.[1] ?? []);

/** The code of the console's server side and of gateways on workerd, which the goal for lines leaves out; `runtime/cloudflare` too. */
const consoleAndEdge = new Set(
  [
    'handlers/console.ts',
    'ports/console-assets.ts',
    'runtime/console-files.ts',
    'runtime/workerd.ts',
    'backends/data/r2.ts',
    'backends/metadata/records/remote.ts',
  ].map((path) => `src/${path}`),
);

/** Files that join rows or entries of many others: an export that they use is declared for a table. */
const tables =
  /^src\/(mod|config)\.ts$|\/(table|operations|registry|metrics|configurations|cli-commands|open-\w+)\.ts$/;

/** What the lines belong to, by the first row whose pattern fits; the last row is what every S3 server has. */
const features: readonly (readonly [string, RegExp])[] = [
  [
    'operator API, and its client',
    /^(handlers|protocol)\/admin|^admin-client|^auth\/administer|operations\/openapi/,
  ],
  ['command line, backup, export of metadata', /^runtime\/(cli|backup)/],
  ['IAM, STS, sessions', /^(domain|handlers)\/iam|^metadata\/iam|^auth\/session|operations\/iam/],
  ['policy engine', /^auth\/(policy|bucket-policy|identity-policies|facts|authorize)/],
  ['metadata on Cassandra', /^backends\/metadata\/wide-column/],
  ['metadata on TiKV, with its client', /^backends\/(metadata\/ordered-kv|tikv)/],
  ['metadata on lmdb, SQLite and in memory', /^backends\/metadata/],
  ['data on disks', /^backends\/(data\/(file|chunked)|disk)/],
  ['data in Ceph, other S3 services, R2', /^backends\/data/],
  ['key providers, encryption of contents', /^backends\/keys|^domain\/content\/(?!store|digests)/],
  [
    'events, audit log, access logs, their targets',
    /^backends\/sinks|^domain\/(events|event-deliveries|deliveries|lanes)/,
  ],
  ['replication between sites', /^domain\/(replication|objects\/\w+-replica)|^handlers\/object\/replicate/],
  ['fsck, scrub, moves between clusters, health', /^domain\/(fsck|scrub|storage|rebalance|clusters)/],
  ['quotas, usage, rate limits', /^domain\/(quotas|usage)/],
  ['lifecycle, inventory', /^domain\/(lifecycle|inventory)/],
  ['metrics, traces, logs', /^telemetry|^metrics\/|^ports\/(telemetry|trace)/],
  ['workers, their leases', /^workers|^metadata\/background/],
  ['settings, processes, entries of the runtimes', /^config|^runtime/],
  ['the S3 protocol, objects, buckets', /./],
];

function countKinds(text: string): Source['kinds'] {
  const count = (pattern: RegExp): number =>
    [...text.matchAll(pattern)].reduce((total, [found]) => total + found.trimEnd().split('\n').length, 0);
  return {
    comments: count(/^ *\/\*[\s\S]*?\*\/|^ *\/\/.*$/gm),
    'empty lines': [...text.matchAll(/^$/gm)].length - 1,
    imports: count(/^import [^;]*;$/gm),
  };
}

function read(path: string): Source {
  const text = readFileSync(path, 'utf8');
  const folder = posix.dirname(path);
  const imports = new Map<string, readonly string[]>();
  for (const [, list = '*', from = ''] of [...text.matchAll(importing), ...text.matchAll(importingLazily)]) {
    const target = posix.normalize(posix.join(folder, from));
    imports.set(target, [...(imports.get(target) ?? []), ...namesIn(list)]);
  }
  const exports = [...text.matchAll(declaration)].map(([, name = '']) => name);
  return { path, folder, lines: text.split('\n').length - 1, kinds: countKinds(text), exports, imports };
}

const sources = sourceFiles().map(read);

function importersOf(path: string): readonly Source[] {
  return sources.filter(({ imports }) => imports.has(path));
}

function usersOf(path: string, name: string): readonly Source[] {
  return importersOf(path).filter(({ imports }) => {
    const names = imports.get(path) ?? [];
    return names.includes(name) || names.includes('*');
  });
}

const cut = 'of a file with no other user';

/** Why an export that one other file uses is an export; only the last kind is a cut between two files that could be one. */
function kindOfUse(exporter: Source, user: Source): string {
  if (tables.test(user.path)) return 'an entry of a table';
  if (exporter.folder.split('/')[1] !== user.folder.split('/')[1]) return 'used by another layer';
  if (exporter.folder !== user.folder) return 'used by another folder of its layer';
  const others = importersOf(exporter.path).filter((each) => each !== user);
  return others.length > 0 ? 'used in its folder, and the file has other users' : cut;
}

/** Pairs of folders in `src/domain` that import each other. */
function mutualPairs(): number {
  const edges = new Set<string>();
  for (const { folder, imports } of sources)
    for (const target of imports.keys()) edges.add(`${folder} ${posix.dirname(target)}`);
  return [...edges].filter((edge) => {
    const [from = '', to = ''] = edge.split(' ');
    return (
      from < to && from.startsWith('src/domain') && to.startsWith('src/domain') && edges.has(`${to} ${from}`)
    );
  }).length;
}

const lines = sources.map((source) => source.lines).sort((a, b) => a - b);
const at = (share: number): number => lines[Math.floor(lines.length * share)] ?? 0;
const folders = Map.groupBy(sources, ({ folder }) => folder);
const depth = sources.reduce((total, { folder }) => total + folder.split('/').length, 0) / sources.length;
const onceUsed = sources.flatMap((source) =>
  source.exports.flatMap((name) => {
    const [user, ...others] = usersOf(source.path, name);
    return user === undefined || others.length > 0 ? [] : [kindOfUse(source, user)];
  }),
);
const sum = (counts: readonly number[]): number => counts.reduce((total, each) => total + each, 0);
const countedLines = sources
  .filter(({ path }) => !consoleAndEdge.has(path) && !path.startsWith('src/runtime/cloudflare'))
  .map((source) => source.lines);
/** The figures for which `house.test.ts` has goals. */
export const house = {
  files: sources.length,
  lines: sum(lines),
  depth,
  /** Folders of two files or fewer. */
  smallFolders: [...folders].filter(([, files]) => files.length <= 2).map(([folder]) => folder),
  filesWithOneImporter: sources.filter(({ path }) => importersOf(path).length === 1).length,
  mutualPairs: mutualPairs(),
  /** Exports that a fold of two files would save. */
  cuts: onceUsed.filter((kind) => kind === cut).length,
};
const rows: readonly (readonly [string, string])[] = [
  ['files of src', String(house.files)],
  ['lines', String(house.lines)],
  ['lines without the code of console and edge', String(sum(countedLines))],
  ['lines of a file: median, 90 %', `${at(0.5)}, ${at(0.9)}`],
  ['folders above a file, on average', house.depth.toFixed(1)],
  ['folders, and those with two files or fewer', `${folders.size}, ${house.smallFolders.length}`],
  [
    'exports, and those that one other file uses',
    `${sources.flatMap(({ exports }) => exports).length}, ${onceUsed.length}`,
  ],
  ...[...Map.groupBy(onceUsed, (kind) => kind)].map(
    ([kind, uses]) => [`… ${kind}`, String(uses.length)] as const,
  ),
  ['files with one importer', String(house.filesWithOneImporter)],
  ['pairs of folders in src/domain that import each other', String(house.mutualPairs)],
];
const linesByFeature = Map.groupBy(sources, ({ path }) =>
  features.findIndex(([, pattern]) => pattern.test(path.slice('src/'.length))),
);
const kinds = ['comments', 'empty lines', 'imports'] as const;
const lineRows = [
  ...kinds.map((kind) => [`lines: ${kind}`, sum(sources.map((source) => source.kinds[kind]))] as const),
  ...features.map(
    ([name], index) =>
      [`lines: ${name}`, sum((linesByFeature.get(index) ?? []).map((source) => source.lines))] as const,
  ),
];
if (import.meta.main)
  for (const [name, value] of [...rows, ...lineRows.map(([name, lines]) => [name, String(lines)] as const)])
    process.stdout.write(`${name.padEnd(56)}${value}\n`);
