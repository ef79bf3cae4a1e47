/** Which files read and write the rows of each table of records. */
import {
  type Binding,
  bindingOf,
  child,
  children,
  declaredBy,
  fileOf,
  methodOf,
  parentOf,
  propertiesByName,
  type SourceFile,
  type Syntax,
  sources,
  usesOf,
} from './source.ts';
import { nodesOf, propertyOf, textsOf } from './values.ts';

type Access = 'reads' | 'writes';

/** Who reads or writes a table. */
interface AccessPlaces {
  /** The files that call the store. */
  readonly direct: ReadonlySet<string>;
  /** The files outside of `src/metadata` that call those of their functions that do. */
  readonly callers: ReadonlySet<string>;
}

const port = 'src/ports/metadata-store.ts';
/** The methods of the metadata port that are about a partition of a table, which is their first argument. */
const methods: Readonly<Record<string, readonly Access[]>> = {
  get: ['reads'],
  scan: ['reads'],
  fence: ['reads'],
  hasPendingAdditions: ['reads'],
  update: ['reads', 'writes'],
  commit: ['writes'],
  clear: ['writes'],
  raiseFence: ['writes'],
  split: ['writes'],
  replaceDamaged: ['writes'],
};
/** Those that are about a whole table. */
const wholeTable: Readonly<Record<string, readonly Access[]>> = {
  hasPendingPuts: ['reads'],
  everyRow: ['reads'],
};
const sideChanges = ['put', 'remove', 'add'];

/** The names of the tables that an expression is a partition of. */
const tablesAt = (expression: Syntax, file: string): readonly string[] =>
  nodesOf(expression, file).flatMap(({ node, file: there }) =>
    propertyOf(node, 'table', there).flatMap((table) => tablesOf(table, there)),
  );

/** The names of the tables that an expression may be. */
const tablesOf = (expression: Syntax, file: string): readonly string[] =>
  nodesOf(expression, file).flatMap(({ node, file: there }) => {
    const callee = node.type === 'CallExpression' ? child(node, 'callee') : undefined;
    const called = callee && bindingOf(callee);
    if (called?.file !== port || called.name !== 'table') return [];
    const [declared] = children(node, 'arguments');
    const names = declared === undefined ? [] : propertyOf(declared, 'name', there);
    return names.flatMap((name) => textsOf(name, there).map(({ text }) => text));
  });

interface Found {
  readonly table: string;
  readonly access: Access;
  readonly node: Syntax;
  readonly file: string;
}

function* accesses({ path: file, nodes }: SourceFile): Generator<Found> {
  for (const call of nodes.get('CallExpression') ?? []) {
    const { method: name = '' } = methodOf(call) ?? {};
    const [at] = children(call, 'arguments');
    // A map's `get` has one argument.
    if (at === undefined || (name === 'get' && children(call, 'arguments').length < 2)) continue;
    for (const access of Object.hasOwn(methods, name) ? (methods[name] ?? []) : [])
      for (const table of tablesAt(at, file)) yield { table, access, node: call, file };
    for (const access of Object.hasOwn(wholeTable, name) ? (wholeTable[name] ?? []) : [])
      for (const table of tablesOf(at, file)) yield { table, access, node: call, file };
  }
  for (const object of nodes.get('ObjectExpression') ?? []) {
    const properties = propertiesByName(object);
    const at = properties.get('at');
    if (at === undefined || !sideChanges.some((name) => properties.has(name))) continue;
    for (const table of tablesAt(at, file)) yield { table, access: 'writes', node: object, file };
  }
}

/** The top-level declaration that a node is part of. */
function enclosing(node: Syntax): Binding | undefined {
  let declaration: Syntax | undefined;
  for (let at: Syntax | undefined = node; at !== undefined; at = parentOf(at))
    if (/^(VariableDeclarator|FunctionDeclaration|ClassDeclaration)$/.test(at.type)) declaration = at;
  const id = declaration && child(declaration, 'id');
  return id && declaredBy(id);
}

/** The files outside of `src/metadata` that use a declaration of it, through others of it too. */
function callersOf(binding: Binding, seen: Set<Binding>): readonly string[] {
  if (seen.has(binding)) return [];
  seen.add(binding);
  return usesOf(binding).flatMap((use) => {
    const file = fileOf(use);
    if (!file.startsWith('src/metadata/')) return file === binding.file ? [] : [file];
    const user = enclosing(use);
    return user === undefined ? [] : callersOf(user, seen);
  });
}

function collect(): ReadonlyMap<string, Readonly<Record<Access, AccessPlaces>>> {
  const found = new Map<string, Record<Access, { direct: Set<string>; callers: Set<string> }>>();
  const none = () => ({ direct: new Set<string>(), callers: new Set<string>() });
  const users = [...sources.values()].filter(({ path }) => !path.startsWith('src/backends/'));
  for (const source of users)
    for (const { table, access, node, file } of accesses(source)) {
      const places = found.get(table) ?? { reads: none(), writes: none() };
      found.set(table, places);
      places[access].direct.add(file);
      const declared = file.startsWith('src/metadata/') ? enclosing(node) : undefined;
      if (declared === undefined) continue;
      for (const caller of callersOf(declared, new Set())) places[access].callers.add(caller);
    }
  return found;
}

/** By name of the table. */
export const recordPlaces = collect();
