/**
 * `node test/tidy/house-of-others.ts SOURCES [DECLARATIONS]` counts what other files use of a file's exports, for a
 * package that has a file for each module: TypeScript, or JavaScript with its declarations. `npm pack NAME` fetches
 * one. A re-export is no use: it leads to the file that declares the name. Types that JavaScript no longer names count
 * where declarations name them.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';

interface Module {
  lines: number;
  hasCode: boolean;
  readonly exports: Set<string>;
  /** Names by the module that they are imported from; `*` where it imports all. */
  readonly imports: Map<string, Set<string>>;
  /** The same for names that are passed on. */
  readonly passedOn: Map<string, Set<string>>;
}

const declaration =
  /^export (?:default )?(?:declare )?(?:abstract |async )?(?:function\*?|const enum|const|let|var|class|interface|type|enum|namespace) (\w+)/gm;
const list = /^export (?:type )?\{([^}]*)\}\s*;?\s*$/gm;
const from =
  /\b(import|export)\s+(?:type\s+)?(?:(\w+)\s*,?\s*)?(\*(?: as \w+)?|\{[^}]*\})?\s*from\s*['"](\.[^'"]*)['"];?/g;
const lazily = /(?:const (\{[^}]*\}) = await )?import\(\s*['"](\.[^'"]*)['"]\)(?:\.(\w+))?/g;

const namesIn = (text: string, last: boolean): readonly string[] =>
  text.startsWith('*')
    ? ['*']
    : text
        .replace(/^\{|\}$/g, '')
        .split(',')
        .flatMap(
          (name) =>
            name
              .trim()
              .match(/\w+/g)
              ?.filter((word) => word !== 'type')
              ?.at(last ? -1 : 0) ?? [],
        );

const [sources = 'src', declarations = sources] = process.argv.slice(2).map((path) => posix.normalize(path));
const isCode = (path: string): boolean =>
  /\.(?:tsx?|js)$/.test(path) &&
  !/\.(?:test|spec|bench|test-d)\.|(?:^|\/)(?:node_modules|cjs|tests?|_\w+)\//.test(path);
const isBelow = (path: string): boolean => path.startsWith(`${declarations}/`);
const modules = new Map<string, Module>();
const keyOf = (path: string): string => path.replace(/(?:\.d)?\.(?:tsx?|js)$/, '');
const files = [...new Set([sources, declarations])].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => isCode(path) && (folder === declarations || !isBelow(posix.join(folder, path))))
    .map((path) => ({ path: posix.join(folder, path), key: keyOf(path) })),
);
for (const { key } of files)
  modules.set(key, { lines: 0, hasCode: false, exports: new Set(), imports: new Map(), passedOn: new Map() });

function resolve(key: string, to: string): string | undefined {
  const path = posix.normalize(posix.join(posix.dirname(key), to));
  return [keyOf(path), path, `${keyOf(path)}/index`, posix.join(path, 'index')].find((each) =>
    modules.has(each),
  );
}

for (const { path, key } of files) {
  const module = modules.get(key) as Module;
  const text = readFileSync(path, 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  if (!path.endsWith('.d.ts')) module.lines = readFileSync(path, 'utf8').split('\n').length - 1;
  const add = (to: Module['imports'], target: string, names: readonly string[]): void => {
    const found = resolve(key, target);
    if (found !== undefined && found !== key) to.set(found, new Set([...(to.get(found) ?? []), ...names]));
  };
  for (const [, name = ''] of text.matchAll(declaration)) module.exports.add(name);
  for (const [, names = ''] of text.matchAll(list))
    for (const name of namesIn(names, true)) if (name !== 'default') module.exports.add(name);
  for (const [, kind, fallback, names = '', target = ''] of text.matchAll(from))
    add(kind === 'import' ? module.imports : module.passedOn, target, [
      ...(fallback === undefined ? [] : ['default']),
      ...(names === '' ? [] : namesIn(names, false)),
    ]);
  for (const [, names = '*', target = '', name] of text.matchAll(lazily))
    add(module.imports, target, name === undefined ? namesIn(names, false) : [name]);
  if (
    text
      .replace(from, '')
      .replace(list, '')
      .replace(/['"]use strict['"];?/, '')
      .trim() !== ''
  )
    module.hasCode = true;
}

/** The modules that declare a name which is imported from a module. */
function declaring(key: string, name: string, seen = new Set<string>()): readonly string[] {
  const { exports, passedOn } = modules.get(key) as Module;
  if (exports.has(name) || seen.has(key)) return [key];
  seen.add(key);
  const targets = [...passedOn].filter(([, names]) => name === '*' || names.has(name) || names.has('*'));
  const found = targets.flatMap(([target, names]) =>
    declaring(target, names.has(name) || name !== '*' ? name : '*', seen),
  );
  return name === '*' || found.length === 0 ? [key, ...found] : found;
}

const counted = [...modules].filter(([, { hasCode }]) => hasCode);
const users = new Map<string, Map<string, Set<string>>>();
for (const [key, { imports }] of modules)
  for (const [target, names] of imports)
    for (const name of names)
      for (const declarer of declaring(target, name)) {
        if (declarer === key) continue;
        const byUser = users.get(declarer) ?? new Map<string, Set<string>>();
        users.set(declarer, byUser.set(key, (byUser.get(key) ?? new Set()).add(name)));
      }
const uses = counted.flatMap(([key, { exports }]) =>
  [...exports].map(
    (name) =>
      [...(users.get(key)?.values() ?? [])].filter((names) => names.has(name) || names.has('*')).length,
  ),
);
const used = uses.filter((count) => count > 0).length;
const once = uses.filter((count) => count === 1).length;
const single = counted.filter(([key]) => users.get(key)?.size === 1).length;
const lines = counted.reduce((sum, [, module]) => sum + module.lines, 0);
const share = (part: number, whole: number): string => `${part} (${Math.round((100 * part) / whole)} %)`;
const rows = [
  ['files, without those that only re-export', String(counted.length)],
  ['lines', String(lines)],
  ['exports', String(uses.length)],
  ['exports that another file uses', String(used)],
  ['exports that one other file uses, of these', share(once, used)],
  ['… for each 1,000 lines', ((1000 * once) / lines).toFixed(1)],
  ['files with one importer', share(single, counted.length)],
];
for (const [name = '', value = ''] of rows) process.stdout.write(`${name.padEnd(56)}${value}\n`);
