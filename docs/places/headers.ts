/** Which files read each header, and which set it in a reply or a request. */
import { conditionKeys } from '../../src/auth/policy/keys.ts';
import { describeOperation, operationNames } from '../../src/protocol/operations/operations.ts';
import {
  type Binding,
  bindingOf,
  child,
  children,
  declaredBy,
  every,
  fileOf,
  isFunction,
  keyOf,
  methodOf,
  nameOf,
  parentOf,
  plain,
  type Syntax,
  sources,
  usesOf,
} from './source.ts';
import { callsOf, iteratedList, propertyNames, textsOf } from './values.ts';

interface HeaderPlaces {
  readonly read: Set<string>;
  readonly set: Set<string>;
}

/** Names without the prefix of a dialect: `storage-class`. */
interface Named {
  readonly name: string;
  readonly isBare: boolean;
  readonly file: string;
}

const prefix = 'x-amz-';
/** The name that the page shows; the twins of the neutral dialect are the same headers. */
const fullName = ({ name, isBare }: Named): string =>
  isBare ? prefix + name : name.toLowerCase().replace(/^(\*-|x-store-)/, prefix);

// What reads headers: `get`, `has` and `all` of the headers of a request, and of those of its dialect (`own`), by bare name.

/** The headers that a value is: all, or those of the dialect; undefined for another map. */
function headersIn(receiver: Syntax): 'all' | 'own' | undefined {
  const node = plain(receiver);
  const name = nameOf(node);
  if (name === 'own') return 'own';
  if (name !== 'headers') return undefined;
  const binding = node.type === 'Identifier' ? bindingOf(node) : undefined;
  if (binding?.path.at(-1) === 'own') return 'own';
  const init = binding?.is.kind === 'value' ? child(binding.is.node, 'init') : undefined;
  // A copy of headers is a map, whose entries replace those of a request.
  return init?.type === 'NewExpression' && child(init, 'callee')?.['name'] === 'Map' ? undefined : 'all';
}

const readers = new Set(['get', 'has', 'all']);

function* readByName(): Generator<Named> {
  for (const [call, path] of every('CallExpression')) {
    const { method = '', receiver } = methodOf(call) ?? {};
    const [name] = children(call, 'arguments');
    const which = receiver !== undefined && readers.has(method) ? headersIn(receiver) : undefined;
    if (which === undefined || name === undefined) continue;
    for (const { text, file } of textsOf(name, path)) yield { name: text, isBare: which === 'own', file };
  }
}

/** `headers[name]`, and `name in headers`. */
function* readAsMembers(): Generator<Named> {
  for (const { path, nodes } of sources.values()) {
    const members = (nodes.get('MemberExpression') ?? []).map((node) => ({
      receiver: child(node, 'object'),
      name: isAssigned(node) || node['computed'] !== true ? undefined : child(node, 'property'),
    }));
    const tests = (nodes.get('BinaryExpression') ?? []).map((node) => ({
      receiver: child(node, 'right'),
      name: node['operator'] === 'in' ? child(node, 'left') : undefined,
    }));
    for (const { receiver, name } of [...members, ...tests]) {
      if (receiver === undefined || name === undefined || headersIn(receiver) !== 'all') continue;
      for (const text of writtenHere(name, path)) yield { name: text, isBare: false, file: path };
    }
  }
}

function isAssigned(member: Syntax): boolean {
  const parent = parentOf(member);
  return parent?.type === 'AssignmentExpression' && child(parent, 'left') === member;
}

/** `startsWith` of a name that a loop takes from the headers: the prefix, with `*` behind it. */
function* readByPrefix(): Generator<Named> {
  for (const [call, path] of every('CallExpression')) {
    const { method, receiver } = methodOf(call) ?? {};
    const [start] = children(call, 'arguments');
    if (method !== 'startsWith' || receiver === undefined || start === undefined) continue;
    for (const { file, isBare } of loopsOver(receiver, path))
      for (const { text, file: user } of textsOf(start, path))
        if (/^(\*-)?[a-z]/.test(text)) yield { name: `${text}*`, isBare, file: user === path ? file : user };
  }
}

type Loop = Pick<Named, 'isBare' | 'file'>;

/** The loops over names of headers that a name comes from, also where it is given to a function. */
function loopsOver(name: Syntax, file: string): readonly Loop[] {
  const binding = name.type === 'Identifier' ? bindingOf(name) : undefined;
  if (binding === undefined) return [];
  if (binding.is.kind === 'value') {
    const loop = parentOf(parentOf(binding.is.node) ?? binding.is.node);
    return loop?.type === 'ForOfStatement' ? listOf(child(loop, 'right'), file) : [];
  }
  if (binding.is.kind !== 'parameter') return [];
  const { of, index } = binding.is;
  const call = parentOf(of);
  if (call?.type === 'CallExpression') return listOf(iteratedList(call), file);
  return callsOf(of).flatMap(({ call: each }) => {
    const argument = children(each, 'arguments')[index];
    return argument === undefined ? [] : loopsOver(plain(argument), fileOf(each));
  });
}

/** `own.keys()`, `headers.names()`, the headers themselves, or an array of these. */
function listOf(list: Syntax | undefined, file: string): readonly Loop[] {
  if (list === undefined) return [];
  const [only] = list.type === 'ArrayExpression' ? children(list, 'elements') : [];
  if (only?.type === 'SpreadElement') return listOf(child(only, 'argument'), file);
  const { method, receiver } = list.type === 'CallExpression' ? (methodOf(list) ?? {}) : {};
  const isNames = method === 'keys' || method === 'names';
  const which = receiver === undefined ? headersIn(list) : isNames ? headersIn(receiver) : undefined;
  return which === undefined ? [] : [{ isBare: which === 'own', file }];
}

const operationTable = 'src/protocol/operations/operations.ts';
const facts = 'src/auth/facts.ts';

/** Headers that select an operation or need a further action, and those that policies may name. */
function* readByTables(): Generator<Named> {
  for (const name of operationNames) {
    const { on, also = {} } = describeOperation(name);
    const selecting = [...on.matchAll(/\+([\w-]+)/g)].map(([, mark = '']) => mark);
    const needing = Object.keys(also).map((mark) => /^[\w-]+/.exec(mark)?.[0] ?? '');
    for (const each of [...selecting, ...needing]) yield { name: each, isBare: true, file: operationTable };
  }
  for (const key of conditionKeys.keys())
    if (key.startsWith(`s3:${prefix}`)) yield { name: key.slice('s3:'.length), isBare: false, file: facts };
}

// What sets headers: pairs of name and value, and objects by name, that become what is called `headers`.

const isHeaders = (name: unknown): boolean => name === 'headers';
const sameValue =
  /^(ArrayExpression|SpreadElement|ConditionalExpression|LogicalExpression|AwaitExpression|TS\w+)$/;
const adding = new Set(['push', 'unshift']);
const listMethods = new Set(['concat', 'filter', 'flat', 'flatMap', 'map', 'toSorted']);

/** Whether an expression only decides which value another one has. */
const isTest = (node: Syntax, parent: Syntax): boolean =>
  child(parent, 'test') === node || (parent['operator'] === '&&' && child(parent, 'left') === node);

/** Answers whether an expression becomes headers, or a part of them. */
class Flow {
  readonly #seen = new Set<Syntax>();
  /** The call by which each function was entered: what it returns is the value of this one. */
  readonly #entered = new Map<Syntax, Syntax>();

  becomesHeaders(node: Syntax): boolean {
    const parent = parentOf(node);
    if (parent === undefined || this.#seen.has(node)) return false;
    this.#seen.add(node);
    if (sameValue.test(parent.type)) return !isTest(node, parent) && this.becomesHeaders(parent);
    switch (parent.type) {
      case 'Property':
        return child(parent, 'value') === node && isHeaders(keyOf(parent));
      case 'ObjectExpression':
        return this.becomesHeaders(parent);
      case 'VariableDeclarator':
        return this.#isHeldByHeaders(child(parent, 'id'));
      case 'AssignmentExpression':
        return isHeaders(child(parent, 'left')?.['name']);
      case 'ReturnStatement':
      case 'ArrowFunctionExpression':
        return this.#isResultHeaders(functionAround(node));
      case 'MemberExpression': {
        const call = parentOf(parent);
        return listMethods.has(keyOf(parent) ?? '') && call !== undefined && this.becomesHeaders(call);
      }
      case 'CallExpression':
      case 'NewExpression':
        return this.#isGivenAsHeaders(node, parent);
      default:
        return false;
    }
  }

  /** Whether a variable is headers by its name, or becomes them. */
  #isHeldByHeaders(id: Syntax | undefined): boolean {
    if (id?.type !== 'Identifier') return false;
    return isHeaders(id['name']) || this.#becomesAt(declaredBy(id));
  }

  #becomesAt(binding: Binding | undefined): boolean {
    return binding !== undefined && usesOf(binding).some((use) => this.becomesHeaders(use));
  }

  #isResultHeaders(of: Syntax | undefined): boolean {
    const parent = of && parentOf(of);
    if (of === undefined || parent === undefined) return false;
    const entered = this.#entered.get(of);
    if (entered !== undefined) return this.becomesHeaders(entered);
    if (parent.type === 'Property' || parent.type === 'MethodDefinition') return isHeaders(keyOf(parent));
    if (parent.type === 'CallExpression') return this.becomesHeaders(parent);
    return callsOf(of).some(({ call }) => this.becomesHeaders(call));
  }

  #isGivenAsHeaders(node: Syntax, call: Syntax): boolean {
    const { method = '', receiver } = methodOf(call) ?? {};
    if (receiver !== undefined && adding.has(method))
      return isHeaders(nameOf(receiver)) || this.#becomesAt(bindingOf(receiver));
    const callee = child(call, 'callee');
    if (call.type === 'NewExpression') return callee?.['name'] === 'Headers' || this.becomesHeaders(call);
    if (receiver?.['name'] === 'Object') return this.becomesHeaders(call);
    const called = callee && bindingOf(callee);
    const of = called && functionOf(called);
    if (of === undefined) return false;
    this.#entered.set(of, call);
    const parameter = children(of, 'params')[children(call, 'arguments').indexOf(node)];
    return this.#isHeldByHeaders(
      parameter?.type === 'AssignmentPattern' ? child(parameter, 'left') : parameter,
    );
  }
}

const becomesHeaders = (node: Syntax): boolean => new Flow().becomesHeaders(node);

function functionAround(node: Syntax): Syntax | undefined {
  for (let at = parentOf(node); at !== undefined; at = parentOf(at)) if (isFunction(at)) return at;
  return undefined;
}

function functionOf({ is }: Binding): Syntax | undefined {
  if (is.kind !== 'value') return undefined;
  const init = child(is.node, 'init');
  const node = init === undefined ? is.node : plain(init);
  return isFunction(node) ? node : undefined;
}

/** The files whose objects describe JSON, where `headers` is a field. */
const ofJson = /^src\/protocol\/(admin|formats|schemas)\//;

function* setAsPairs(): Generator<Named> {
  for (const [pair, path] of every('ArrayExpression')) {
    const [name, value, ...more] = children(pair, 'elements');
    if (name === undefined || value === undefined || more.length > 0) continue;
    if (name.type === 'SpreadElement' || value.type === 'SpreadElement') continue;
    const texts = textsOf(name, path);
    if (texts.length === 0 || !becomesHeaders(pair)) continue;
    for (const { text, file } of texts) yield { name: text, isBare: false, file };
  }
}

function* setAsObjects(): Generator<Named> {
  for (const [object, file] of every('ObjectExpression')) {
    if (children(object, 'properties').length === 0 || !becomesHeaders(object)) continue;
    for (const property of children(object, 'properties'))
      if (property.type === 'Property')
        for (const name of propertyNames(property, file)) yield { name, isBare: false, file };
  }
}

/** `headers[name] = value`. */
function* setAsMembers(): Generator<Named> {
  for (const [assignment, path] of every('AssignmentExpression')) {
    const member = child(assignment, 'left');
    const [receiver, name] = member === undefined ? [] : [child(member, 'object'), child(member, 'property')];
    if (member?.['computed'] !== true || receiver === undefined || name === undefined) continue;
    const texts = writtenHere(name, path);
    if (texts.length === 0 || !isNamedHeaders(receiver)) continue;
    for (const text of texts) yield { name: text, isBare: false, file: path };
  }
}

function isNamedHeaders(receiver: Syntax): boolean {
  if (isHeaders(nameOf(receiver))) return true;
  const binding = receiver.type === 'Identifier' ? bindingOf(receiver) : undefined;
  return binding !== undefined && usesOf(binding).some((use) => becomesHeaders(use));
}

/** `flat.push(name, value)`: how the runtimes list them. */
function* setInFlatLists(): Generator<Named> {
  for (const [call, path] of every('CallExpression')) {
    const { method, receiver } = methodOf(call) ?? {};
    const [name, value] = children(call, 'arguments');
    if (method !== 'push' || receiver === undefined || name === undefined || value === undefined) continue;
    if (nameOf(receiver) !== 'flat') continue;
    for (const text of writtenHere(name, path)) yield { name: text, isBare: false, file: path };
  }
}

/** The names that the file itself writes, without those of lists that pass through it. */
const writtenHere = (name: Syntax, path: string): readonly string[] =>
  textsOf(name, path).flatMap(({ text, file, literal }) =>
    literal !== undefined && file === path ? [text] : [],
  );

/** `headers.set(name, value)`. */
function* setByName(): Generator<Named> {
  for (const [call, path] of every('CallExpression')) {
    const { method = '', receiver } = methodOf(call) ?? {};
    const [name, value] = children(call, 'arguments');
    if (method !== 'set' && method !== 'append') continue;
    if (receiver === undefined || name === undefined || value === undefined || headersIn(receiver) !== 'all')
      continue;
    for (const { text, file } of textsOf(name, path)) yield { name: text, isBare: false, file };
  }
}

/** A name as it is written in requests and replies, of several words or of one with a capital. */
const isName = (name: string): boolean => /^(\*-|[A-Z]|[a-z]+[\w]*-)[\w*-]*$/.test(name);

function collect(): ReadonlyMap<string, HeaderPlaces> {
  const found = new Map<string, HeaderPlaces>();
  const at = (name: string): HeaderPlaces => {
    const places = found.get(name) ?? { read: new Set(), set: new Set() };
    found.set(name, places);
    return places;
  };
  for (const each of [...readByName(), ...readAsMembers(), ...readByPrefix(), ...readByTables()])
    at(fullName(each)).read.add(each.file);
  const set = [...setAsPairs(), ...setAsObjects(), ...setAsMembers(), ...setInFlatLists(), ...setByName()];
  for (const each of set) {
    const name = fullName(each);
    // A name without its prefix replaces a header of the request where policies are asked.
    if (ofJson.test(each.file) || found.has(prefix + each.name) || name === `${prefix}*`) continue;
    if (isName(each.name) || found.has(name)) at(name).set.add(each.file);
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** By name in lower case. */
export const headerPlaces = collect();
