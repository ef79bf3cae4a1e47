/** Where the rows of the tables are used: error codes, settings, metrics, events, condition keys, and what has a file of its own. */
import { posix } from 'node:path';
import { type HandlerPlaces, reached } from './handlers.ts';
import {
  type Binding,
  bindingOf,
  child,
  children,
  every,
  isFunction,
  keyOf,
  loadedFile,
  methodOf,
  nameOf,
  parentOf,
  propertiesByName,
  type Syntax,
  sources,
} from './source.ts';
import { propertyOf, returnTexts, type Text, textsOf } from './values.ts';

type Places = ReadonlyMap<string, ReadonlySet<string>>;

/** A set for each name, to which places are added; other names are left out. */
class Collected {
  readonly #places: Map<string, Set<string>>;

  constructor(names: Iterable<string>) {
    this.#places = new Map([...names].map((name) => [name, new Set()]));
  }
  add(name: string, file: string): void {
    this.#places.get(name)?.add(file);
  }
  has(name: string): boolean {
    return this.#places.has(name);
  }
  get places(): Places {
    return this.#places;
  }
}

/** The first arguments of calls of these methods, which have at least as many arguments as their name says. */
function* argumentsOfMethods(
  methods: Readonly<Record<string, number>>,
): Generator<readonly [argument: Syntax, file: string]> {
  for (const [call, file] of every('CallExpression')) {
    const { method = '', receiver } = methodOf(call) ?? {};
    const all = children(call, 'arguments');
    const [argument] = all;
    if (!Object.hasOwn(methods, method) || all.length < (methods[method] ?? 0)) continue;
    if (argument !== undefined) yield [argument, file];
    // `number('svc_x').replace(…)`: a function has looked the name up.
    const [name] = receiver?.type === 'CallExpression' ? children(receiver, 'arguments') : [];
    if (name !== undefined) yield [name, file];
  }
}

/** The texts that are written as literals: others are the names of a whole table. */
const written = (expression: Syntax, file: string): readonly (Text & { readonly literal: Syntax })[] =>
  textsOf(expression, file).flatMap((text) =>
    text.literal === undefined ? [] : [{ ...text, literal: text.literal }],
  );

const isValueOfProperty = (literal: Syntax): boolean => {
  const parent = parentOf(literal);
  return parent?.type === 'Property' && child(parent, 'value') === literal;
};

/** The files that declare the codes, and what they mean. */
const catalogue = /^src\/(base|protocol)\/errors\.ts$/;

/** By error code: the files that refuse with it, and those that compare the code of a refusal with it. */
export function findErrors(codes: readonly string[]): { readonly refuse: Places; readonly compare: Places } {
  const [refuse, compare] = [new Collected(codes), new Collected(codes)];
  const thrown = new Set<Syntax>();
  for (const [call, file] of every('CallExpression', 'NewExpression')) {
    const called = bindingOf(child(call, 'callee') ?? call);
    const [code] = children(call, 'arguments');
    if (code === undefined || called?.file !== 'src/base/errors.ts') continue;
    // The only function whose first argument is no code.
    if (called.name === 'invalidArgument') refuse.add('InvalidArgument', file);
    for (const { text, file: user, literal } of textsOf(code, file)) {
      refuse.add(text, user);
      if (literal !== undefined) thrown.add(literal);
    }
  }
  for (const [literal, file] of every('Literal')) {
    if (catalogue.test(file)) continue;
    // The file that writes the code counts too: as a constant, or as a property, with which another file refuses.
    const where = thrown.has(literal) || isValueOfProperty(literal) ? refuse : compare;
    where.add(String(literal['value']), file);
  }
  // A table by code says what is done about each.
  for (const [property, file] of every('Property'))
    if (!catalogue.test(file)) compare.add(keyOf(property) ?? '', file);
  return { refuse: refuse.places, compare: compare.places };
}

const isConfig = (object: Syntax | undefined): boolean => object !== undefined && nameOf(object) === 'config';

/** By setting: the files that read its value. */
export function findSettings(names: readonly string[]): Places {
  const found = new Collected(names);
  for (const [member, file] of every('MemberExpression')) {
    const [name, property] = [keyOf(member), child(member, 'property')];
    if (name !== undefined) found.add(name, file);
    else if (property !== undefined && isConfig(child(member, 'object')))
      for (const { text, file: user } of written(property, file)) found.add(text, user);
  }
  for (const [property, file] of every('Property'))
    if (parentOf(property)?.type === 'ObjectPattern') found.add(keyOf(property) ?? '', file);
  // `settingText('SVC_X')`: before the settings are checked.
  for (const [call, file] of every('CallExpression')) {
    const [name] = children(call, 'arguments');
    if (child(call, 'callee')?.type === 'Identifier' && name?.type === 'Literal')
      found.add(String(name['value']), file);
  }
  return found.places;
}

/** The methods of `ports/telemetry.ts` that count; `set` of a map has fewer arguments. */
const counting = { count: 1, set: 3, replace: 1, observe: 2 };

/** By metric: the files that count it, and those that read it. */
export function findMetrics(names: readonly string[]): { readonly count: Places; readonly read: Places } {
  const [count, read] = [new Collected(names), new Collected(names)];
  const counted = new Set<Syntax>();
  for (const [name, file] of argumentsOfMethods(counting))
    for (const { text, file: user, literal } of written(name, file)) {
      count.add(text, user);
      counted.add(literal);
    }
  for (const [literal, file] of every('Literal'))
    if (!file.startsWith('src/metrics/') && !counted.has(literal)) read.add(String(literal['value']), file);
  return { count: count.places, read: read.places };
}

const declaringEvents = 'src/domain/configurations/notification.ts';
const isCompared = (literal: Syntax): boolean => parentOf(literal)?.type === 'BinaryExpression';

/** By event (`ObjectCreated:Put`): the files that name it, without those that only declare or compare it. */
export function findEvents(names: readonly string[]): Places {
  const found = new Collected(names);
  for (const { path: file, nodes } of sources.values()) {
    if (file === declaringEvents) continue;
    const literals = (nodes.get('Literal') ?? []).filter(
      (literal) => !isCompared(literal) && !isKey(literal),
    );
    const texts = new Set(literals.map((literal) => String(literal['value'])));
    const starts = (nodes.get('TemplateLiteral') ?? []).map((template) => startOf(template));
    for (const name of names) {
      const [family = '', kind = ''] = name.split(':');
      // A family alone stands for all of its kinds; a template begins with it, and its file has the kinds.
      const isComposed = starts.includes(`${family}:`) && texts.has(kind);
      if (texts.has(name) || texts.has(family) || isComposed) found.add(name, file);
    }
  }
  return found.places;
}

const isKey = (literal: Syntax): boolean => {
  const parent = parentOf(literal);
  return parent?.type === 'Property' && child(parent, 'key') === literal;
};

/** The text that a template begins with. */
const startOf = (template: Syntax): string =>
  String((children(template, 'quasis')[0]?.['value'] as { readonly cooked?: unknown } | undefined)?.cooked);

const declaringKeys = 'src/auth/policy/keys.ts';

/** By condition key: the files that give it a value, or have a rule about it. */
export function findConditionKeys(names: readonly string[], families: readonly string[]): Places {
  const found = new Collected([...names, ...families]);
  const note = (text: string, file: string): void => {
    found.add(text, file);
    const family = text.slice(0, text.indexOf('/'));
    found.add(family, file);
    if (text.endsWith('-')) for (const name of names) if (name.startsWith(text)) found.add(name, file);
  };
  for (const [literal, file] of every('Literal'))
    if (file !== declaringKeys || hasReader(literal)) note(String(literal['value']), file);
  for (const [element, file] of every('TemplateElement'))
    note(String((element['value'] as { readonly cooked?: unknown }).cooked), file);
  for (const [property, file] of every('Property')) note(keyOf(property) ?? '', file);
  return found.places;
}

/** In the table of the keys: whether the literal is compared, or stands beside the reader of its value. */
function hasReader(literal: Syntax): boolean {
  const parent = parentOf(literal);
  if (parent?.type === 'BinaryExpression') return true;
  return parent?.type === 'ArrayExpression' && children(parent, 'elements')[1]?.type === 'ObjectExpression';
}

/** By name: the files that call one of the methods with it, or have it as a property of that name. */
export function findGiven(names: readonly string[], methods: readonly string[]): Places {
  const found = new Collected(names);
  for (const [argument, file] of argumentsOfMethods(Object.fromEntries(methods.map((each) => [each, 1]))))
    for (const { text, file: user } of written(argument, file)) found.add(text, user);
  for (const [property, file] of every('Property', 'MethodDefinition')) {
    const value = child(property, 'value');
    if (value === undefined || !methods.includes(keyOf(property) ?? '')) continue;
    // A getter returns it.
    for (const { text } of isFunction(value) ? returnTexts(value, file) : written(value, file))
      found.add(text, file);
  }
  return found.places;
}

/** The files below a folder whose declarations a piece of code names or loads, itself or through files beside its own. */
function filesBehind(
  code: Syntax,
  file: string,
  folder: string,
  follows = ({ file: other }: Binding): boolean => posix.dirname(other) === posix.dirname(file),
): ReadonlySet<string> {
  const declarations = [...reached(code, follows)];
  const pieces = [
    { piece: code, in: file },
    ...declarations.flatMap((binding) =>
      binding.is.kind === 'value' && follows(binding) ? [{ piece: binding.is.node, in: binding.file }] : [],
    ),
  ];
  const loaded = pieces.flatMap(({ piece, in: there }) =>
    (sources.get(there)?.nodes.get('ImportExpression') ?? [])
      .filter((node) => isWithin(node, piece))
      .map((node) => loadedFile(node) ?? ''),
  );
  const files = [...declarations.map((binding) => binding.file), ...loaded];
  return new Set(files.filter((each) => each.startsWith(folder)));
}

function isWithin(node: Syntax, outer: Syntax): boolean {
  for (let at: Syntax | undefined = node; at !== undefined; at = parentOf(at)) if (at === outer) return true;
  return false;
}

/** By name: the files below `folder` that open what is chosen by it, where a table or a comparison names it. */
export function findOpened(names: readonly string[], folder: string): Places {
  const found = new Collected(names);
  const note = (name: string, code: Syntax | undefined, file: string): void => {
    if (code === undefined || !found.has(name)) return;
    for (const opened of filesBehind(code, file, folder)) found.add(name, opened);
  };
  for (const [property, file] of every('Property'))
    if (parentOf(property)?.type === 'ObjectExpression')
      note(keyOf(property) ?? '', child(property, 'value'), file);
  for (const [chosen, file] of every('ConditionalExpression')) {
    const test = child(chosen, 'test');
    const right = test?.['operator'] === '===' ? child(test, 'right') : undefined;
    note(String(right?.['value']), child(chosen, 'consequent'), file);
  }
  // A sink that needs no loading is named after its kind.
  for (const { path, exports } of sources.values())
    for (const name of path.startsWith(folder) ? names : [])
      if (exports.has(`${name}Sink`)) found.add(name, path);
  return found.places;
}

const registry = 'src/workers/registry.ts';

/** By worker: the file of its unit, and the files of the domain that it calls, itself or through other files of `src/workers`. */
export function findWorkers(names: readonly string[]): ReadonlyMap<string, HandlerPlaces> {
  const found = new Map<string, HandlerPlaces>();
  const objects = (sources.get(registry)?.nodes.get('ObjectExpression') ?? []).flatMap((object) => {
    const properties = propertiesByName(object);
    const [made, name] = [properties.get('make'), properties.get('name')];
    const parent = parentOf(object);
    if (made !== undefined && parent?.type === 'Property') return [[keyOf(parent) ?? '', made] as const];
    // The sweep is no row of the registry.
    return name === undefined ? [] : textsOf(name, registry).map(({ text }) => [text, object] as const);
  });
  for (const name of names)
    for (const [each, code] of objects) {
      if (each !== name || found.has(name)) continue;
      const unit = bindingOf(code);
      const all = [...reached(code, ({ file }) => file.startsWith('src/workers/') && file !== registry)];
      const domain = all.map(({ file }) => file).filter((file) => file.startsWith('src/domain/'));
      found.set(name, { file: unit?.file ?? registry, domain: new Set(domain) });
    }
  return found;
}

const followed = 'src/domain/storage/tasks.ts';

/** The kinds of long tasks that operators follow: what works on each, and the file that declares its rows. */
export function findTasks(): readonly {
  readonly kind: string;
  readonly by: string;
  readonly file: string;
}[] {
  const rows = (sources.get(followed)?.nodes.get('CallExpression') ?? []).flatMap((call) => {
    const [kind, declared, options] = children(call, 'arguments');
    const task = declared && bindingOf(declared);
    if (kind === undefined || task === undefined || options === undefined) return [];
    if (bindingOf(child(call, 'callee') ?? call)?.name !== 'follow') return [];
    const by = propertyOf(options, 'by', followed).flatMap((object) =>
      ['worker', 'command'].flatMap((name) => propertyOf(object, name, followed)),
    );
    const texts = (each: Syntax): readonly string[] => textsOf(each, followed).map(({ text }) => text);
    return texts(kind).flatMap((name) =>
      by.flatMap(texts).map((worker) => ({ kind: name, by: worker, file: task.file })),
    );
  });
  const byName = new Map(rows.map((row) => [`${row.kind} ${row.by} ${row.file}`, row]));
  return [...byName].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

const commandTable = 'src/runtime/cli/cli-commands.ts';

/** By command of `sluice`: the files that are loaded for it. */
export function findCommands(): Places {
  const found = new Map<string, ReadonlySet<string>>();
  const loaded = loadedFiles(commandTable);
  for (const name of ['commands', 'others']) {
    const binding = sources.get(commandTable)?.topLevel.get(name);
    const table = binding?.is.kind === 'value' ? child(binding.is.node, 'init') : undefined;
    for (const property of table === undefined ? [] : children(table, 'properties')) {
      const command = child(property, 'value');
      if (command === undefined) continue;
      const files = filesBehind(command, commandTable, 'src/runtime/', isFunctionHere);
      const own = [...files].filter((file) => loaded.has(file));
      found.set(keyOf(property) ?? '', new Set(own.length === 0 ? [commandTable] : own));
    }
  }
  return found;
}

/** The tables name each other's commands, which are not followed. */
function isFunctionHere({ file, is }: Binding): boolean {
  if (file !== commandTable || is.kind !== 'value') return false;
  const init = child(is.node, 'init') ?? is.node;
  return isFunction(init) || init.type === 'FunctionDeclaration';
}

const loadedFiles = (file: string): ReadonlySet<string> =>
  new Set((sources.get(file)?.nodes.get('ImportExpression') ?? []).map((node) => loadedFile(node) ?? ''));
