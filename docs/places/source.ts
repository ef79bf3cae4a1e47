/** The files of `src` as syntax trees, with what each name in them refers to. Types and comments are left out. */
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

/** A node of a tree (ESTree). */
export interface Syntax {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A declared name. */
export interface Binding {
  readonly name: string;
  readonly file: string;
  /** The declarator, function or class; for an import the file and the name in it (`*`: all of them). */
  readonly is:
    | { readonly kind: 'value'; readonly node: Syntax }
    | { readonly kind: 'parameter'; readonly of: Syntax; readonly index: number }
    | { readonly kind: 'import'; readonly from: string; readonly imported: string };
  /** Where it stands in what is destructured: keys of objects, indexes of arrays. */
  readonly path: readonly (string | number)[];
  /** Its value where none is given. */
  readonly fallback: Syntax | undefined;
}

type Declared = Pick<Binding, 'is'> & Partial<Pick<Binding, 'path' | 'fallback'>>;

interface Scope {
  readonly outer: Scope | undefined;
  readonly names: Map<string, Binding>;
}

/** A file: its nodes by their type, its top-level names, and what it exports. */
export interface SourceFile {
  readonly path: string;
  readonly nodes: ReadonlyMap<string, readonly Syntax[]>;
  readonly topLevel: ReadonlyMap<string, Binding>;
  /** By exported name: the local name, or the name in another file. */
  readonly exports: ReadonlyMap<
    string,
    { readonly local: string } | { readonly from: string; readonly name: string }
  >;
  /** The files whose exports it exports all. */
  readonly exportsAll: readonly string[];
  /** The names at the places where they are used. */
  readonly references: readonly (readonly [node: Syntax, scope: Scope])[];
}

const parents = new Map<Syntax, Syntax>();
const bindings = new Map<Syntax, Binding>();
const uses = new Map<Binding, Syntax[]>();
const fileOfNode = new Map<Syntax, string>();
const declarations = new Map<Syntax, Binding>();

export const parentOf = (node: Syntax): Syntax | undefined => parents.get(node);
/** What an identifier refers to: the declaration in its own file, whichever file imports it. */
export const bindingOf = (identifier: Syntax): Binding | undefined => bindings.get(identifier);
/** What an identifier declares, where it stands in a declaration. */
export const declaredBy = (identifier: Syntax): Binding | undefined => declarations.get(identifier);
/** The places in all files at which a name is used. */
export const usesOf = (binding: Binding): readonly Syntax[] => uses.get(binding) ?? [];
/** The file of an identifier, a call or an import. */
export const fileOf = (node: Syntax): string => fileOfNode.get(node) ?? '';

const isSyntax = (value: unknown): value is Syntax =>
  typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string';
export const child = (node: Syntax, field: string): Syntax | undefined => {
  const value = node[field];
  return isSyntax(value) ? value : undefined;
};
export const children = (node: Syntax, field: string): readonly Syntax[] => {
  const value = node[field];
  return Array.isArray(value) ? value.filter(isSyntax) : [];
};

const functions = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
export const isFunction = ({ type }: Syntax): boolean => functions.has(type);

const blocks = new Set([
  'BlockStatement',
  'ForStatement',
  'ForInStatement',
  'ForOfStatement',
  'SwitchStatement',
  'CatchClause',
  'StaticBlock',
]);
/** The nodes of types that have an expression in them. */
const typed = new Set([
  'TSAsExpression',
  'TSSatisfiesExpression',
  'TSNonNullExpression',
  'TSInstantiationExpression',
]);
const keyed = new Set(['Property', 'PropertyDefinition', 'MethodDefinition', 'AccessorProperty']);

/** The expression without what types say about it. */
export function plain(node: Syntax): Syntax {
  let inner = node;
  while (typed.has(inner.type) || inner.type === 'ParenthesizedExpression')
    inner = child(inner, 'expression') ?? inner;
  return inner;
}

/** The name of a key or a property, where it is not computed. */
export function keyOf(node: Syntax): string | undefined {
  const key = child(node, node.type === 'MemberExpression' ? 'property' : 'key');
  if (key === undefined) return undefined;
  if (key.type === 'Literal') return String(key['value']);
  if (node['computed'] === true) return undefined;
  return key.type === 'Identifier' || key.type === 'PrivateIdentifier' ? String(key['name']) : undefined;
}

/** The name of a variable, or of the property that a member names. */
export const nameOf = (node: Syntax): string | undefined =>
  node.type === 'Identifier' ? String(node['name']) : keyOf(node);

/** The method that a call calls, and what it calls it on. */
export function methodOf(call: Syntax): { readonly method: string; readonly receiver: Syntax } | undefined {
  const callee = child(call, 'callee');
  const receiver = callee?.type === 'MemberExpression' ? child(callee, 'object') : undefined;
  return callee === undefined || receiver === undefined
    ? undefined
    : { method: keyOf(callee) ?? '', receiver };
}

/** The values of the properties that an object writes itself. */
export const propertiesByName = (object: Syntax): ReadonlyMap<string | undefined, Syntax | undefined> =>
  new Map(children(object, 'properties').map((each) => [keyOf(each), child(each, 'value')]));

const located = new Set(['Identifier', 'ImportExpression', 'CallExpression', 'NewExpression']);

class Reader {
  readonly #nodes = new Map<string, Syntax[]>();
  readonly #exports = new Map<
    string,
    { readonly local: string } | { readonly from: string; readonly name: string }
  >();
  readonly #exportsAll: string[] = [];
  readonly #references: [Syntax, Scope][] = [];
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  read(program: Syntax): SourceFile {
    const scope: Scope = { outer: undefined, names: new Map() };
    for (const statement of children(program, 'body')) this.#visit(statement, program, scope);
    return {
      path: this.#path,
      nodes: this.#nodes,
      topLevel: scope.names,
      exports: this.#exports,
      exportsAll: this.#exportsAll,
      references: this.#references,
    };
  }

  #note(node: Syntax, parent: Syntax): void {
    parents.set(node, parent);
    if (located.has(node.type)) fileOfNode.set(node, this.#path);
    const same = this.#nodes.get(node.type);
    if (same === undefined) this.#nodes.set(node.type, [node]);
    else same.push(node);
  }

  #visit(node: Syntax, parent: Syntax, scope: Scope): void {
    const { type } = node;
    if (type.startsWith('TS') && !typed.has(type)) return;
    this.#note(node, parent);
    if (type === 'Identifier') this.#references.push([node, scope]);
    else if (type === 'ImportDeclaration') this.#import(node, scope);
    else if (type.startsWith('Export')) this.#export(node, scope);
    else if (type === 'VariableDeclarator') this.#declareVariable(node, scope);
    else if (isFunction(node)) this.#visitFunction(node, scope);
    else this.#visitOther(node, scope);
  }

  #visitOther(node: Syntax, scope: Scope): void {
    const { type } = node;
    if (type === 'ClassDeclaration') this.#declareNamed(node, scope);
    const inner = blocks.has(type) ? { outer: scope, names: new Map<string, Binding>() } : scope;
    if (type === 'CatchClause') {
      const caught = child(node, 'param');
      if (caught !== undefined) this.#declare(caught, node, inner, { is: { kind: 'value', node } });
    }
    this.#visitChildren(node, inner, this.#skipped(node));
  }

  /** The fields whose identifiers are no names of the scope. */
  #skipped(node: Syntax): readonly string[] {
    if (node.type === 'MemberExpression') return node['computed'] === true ? [] : ['property'];
    if (keyed.has(node.type)) return node['computed'] === true ? [] : ['key'];
    if (node.type === 'ClassDeclaration' || node.type === 'ClassExpression') return ['id'];
    if (node.type === 'CatchClause') return ['param'];
    return node.type === 'LabeledStatement' || /^(Break|Continue)/.test(node.type) ? ['label'] : [];
  }

  #visitChildren(node: Syntax, scope: Scope, skipped: readonly string[] = []): void {
    for (const field in node) {
      if (skipped.includes(field)) continue;
      const value = node[field];
      if (Array.isArray(value)) {
        for (const each of value) if (isSyntax(each)) this.#visit(each, node, scope);
      } else if (isSyntax(value)) this.#visit(value, node, scope);
    }
  }

  #visitFunction(node: Syntax, scope: Scope): void {
    if (node.type === 'FunctionDeclaration') this.#declareNamed(node, scope);
    const inner: Scope = { outer: scope, names: new Map() };
    for (const [index, parameter] of children(node, 'params').entries())
      this.#declare(parameter, node, inner, { is: { kind: 'parameter', of: node, index } });
    const body = child(node, 'body');
    if (body !== undefined) this.#visit(body, node, inner);
  }

  #declareVariable(node: Syntax, scope: Scope): void {
    const [id, init] = [child(node, 'id'), child(node, 'init')];
    if (init !== undefined) this.#visit(init, node, scope);
    if (id !== undefined) this.#declare(id, node, scope, { is: { kind: 'value', node } });
  }

  #declareNamed(node: Syntax, scope: Scope): void {
    const id = child(node, 'id');
    if (id !== undefined) this.#declare(id, node, scope, { is: { kind: 'value', node } });
  }

  /** Declares the names of a pattern. */
  #declare(pattern: Syntax, parent: Syntax, scope: Scope, declared: Declared): void {
    this.#note(pattern, parent);
    const { is, path = [], fallback } = declared;
    const { type } = pattern;
    if (type === 'Identifier') {
      const name = String(pattern['name']);
      const binding: Binding = { name, file: this.#path, is, path, fallback };
      scope.names.set(name, binding);
      declarations.set(pattern, binding);
    } else if (type === 'AssignmentPattern') {
      const [left, right] = [child(pattern, 'left'), child(pattern, 'right')];
      if (left !== undefined) this.#declare(left, pattern, scope, { is, path, fallback: right });
      if (right !== undefined) this.#visit(right, pattern, scope);
    } else if (type === 'RestElement') {
      const rest = child(pattern, 'argument');
      if (rest !== undefined) this.#declare(rest, pattern, scope, { is, path: [...path, '...'] });
    } else if (type === 'ArrayPattern') {
      for (const [index, element] of (pattern['elements'] as readonly unknown[]).entries())
        if (isSyntax(element)) this.#declare(element, pattern, scope, { is, path: [...path, index] });
    } else if (type === 'ObjectPattern') {
      for (const property of children(pattern, 'properties')) {
        const value = child(property, 'value');
        if (value === undefined) this.#declare(property, pattern, scope, { is, path });
        else {
          this.#note(property, pattern);
          this.#declare(value, property, scope, { is, path: [...path, keyOf(property) ?? '?'] });
        }
      }
    }
  }

  #resolve(source: unknown): string | undefined {
    const from = String((source as { value?: unknown }).value);
    return from.startsWith('.') ? posix.normalize(posix.join(posix.dirname(this.#path), from)) : undefined;
  }

  #import(node: Syntax, scope: Scope): void {
    const from = this.#resolve(node['source']);
    if (from === undefined || node['importKind'] === 'type') return;
    for (const specifier of children(node, 'specifiers')) {
      if (specifier['importKind'] === 'type') continue;
      const local = child(specifier, 'local');
      const imported = child(specifier, 'imported')?.['name'] ?? '*';
      if (local !== undefined)
        this.#declare(local, specifier, scope, { is: { kind: 'import', from, imported: String(imported) } });
    }
  }

  #export(node: Syntax, scope: Scope): void {
    const from = node['source'] ? this.#resolve(node['source']) : undefined;
    if (node.type === 'ExportAllDeclaration') {
      if (from !== undefined) this.#exportsAll.push(from);
      return;
    }
    const declaration = child(node, 'declaration');
    if (declaration !== undefined) {
      const before = new Set(scope.names.keys());
      this.#visit(declaration, node, scope);
      for (const name of scope.names.keys()) if (!before.has(name)) this.#exports.set(name, { local: name });
      return;
    }
    for (const specifier of children(node, 'specifiers')) {
      const [local, exported] = ['local', 'exported'].map((field) =>
        String(child(specifier, field)?.['name']),
      );
      if (local === undefined || exported === undefined) continue;
      this.#exports.set(exported, from === undefined ? { local } : { from, name: local });
    }
  }
}

const readSources = (): ReadonlyMap<string, SourceFile> =>
  new Map(
    readdirSync('src', { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `src/${name.replaceAll('\\', '/')}`)
      .sort()
      .map((path) => {
        // The cast: a program is a node.
        const program = parseAst(readFileSync(path, 'utf8'), { lang: 'ts' }) as unknown as Syntax;
        return [path, new Reader(path).read(program)];
      }),
  );

/** By path from the root of the project. */
export const sources: ReadonlyMap<string, SourceFile> = readSources();

/** Every node of some types, with its file. */
export function* every(...types: readonly string[]): Generator<readonly [node: Syntax, file: string]> {
  for (const { path, nodes } of sources.values())
    for (const type of types) for (const node of nodes.get(type) ?? []) yield [node, path];
}

/** The declaration behind an exported name. */
export function findExport(path: string, name: string): Binding | undefined {
  const file = sources.get(path);
  if (file === undefined) return undefined;
  const exported = file.exports.get(name);
  if (exported === undefined) {
    for (const from of file.exportsAll) {
      const found = findExport(from, name);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if ('from' in exported) return findExport(exported.from, exported.name);
  const local = file.topLevel.get(exported.local);
  return local && declarationOf(local);
}

/** Of an import what it imports, else the binding itself. */
function declarationOf(binding: Binding): Binding {
  const { is, path } = binding;
  if (is.kind === 'import') return findExport(is.from, is.imported) ?? binding;
  const loaded =
    is.kind === 'value' && is.node.type === 'VariableDeclarator'
      ? loadedBy(child(is.node, 'init'), path)
      : is.kind === 'parameter'
        ? loadedBeforeCall(is.of, path)
        : undefined;
  return loaded ?? binding;
}

/** The file that `import('…')` loads. */
export const loadedFile = (node: Syntax): string | undefined => {
  const source = node.type === 'ImportExpression' ? child(node, 'source') : undefined;
  const from = String(source?.['value']);
  return from.startsWith('.') ? posix.join(posix.dirname(fileOf(node)), from) : undefined;
};

/** What `const { name } = await import('…')` names, also among several files that are loaded together. */
function loadedBy(init: Syntax | undefined, path: Binding['path']): Binding | undefined {
  if (init === undefined) return undefined;
  const node = plain(init);
  if (node.type === 'AwaitExpression') return loadedBy(child(node, 'argument'), path);
  const [first, ...rest] = path;
  if (node.type === 'ImportExpression') {
    const from = loadedFile(node);
    return from === undefined || typeof first !== 'string' || rest.length > 0
      ? undefined
      : findExport(from, first);
  }
  const [together] = node.type === 'CallExpression' ? children(node, 'arguments') : [];
  if (together?.type !== 'ArrayExpression' || typeof first !== 'number') return undefined;
  return loadedBy(children(together, 'elements')[first], rest);
}

/** What `import('…').then(({ name }) => …)` names. */
function loadedBeforeCall(of: Syntax, path: Binding['path']): Binding | undefined {
  const call = parentOf(of);
  const { method, receiver } = call?.type === 'CallExpression' ? (methodOf(call) ?? {}) : {};
  return method === 'then' && receiver?.type === 'ImportExpression' ? loadedBy(receiver, path) : undefined;
}

for (const { references } of sources.values()) {
  for (const [node, scope] of references) {
    const name = String(node['name']);
    let at: Scope | undefined = scope;
    while (at !== undefined && !at.names.has(name)) at = at.outer;
    const found = at?.names.get(name);
    if (found === undefined) continue;
    const binding = declarationOf(found);
    bindings.set(node, binding);
    const known = uses.get(binding);
    if (known === undefined) uses.set(binding, [node]);
    else known.push(node);
  }
}
