/** The texts that an expression of the sources may have, as far as they are written there. */
import {
  type Binding,
  bindingOf,
  child,
  children,
  declaredBy,
  fileOf,
  isFunction,
  keyOf,
  methodOf,
  parentOf,
  plain,
  type Syntax,
  usesOf,
} from './source.ts';

/** A text that an expression may have. */
export interface Text {
  readonly text: string;
  /** The file that uses it: of the expression; where that is a parameter, of the call that gives it. */
  readonly file: string;
  /** The literal in which it is written; undefined for one that is composed. */
  readonly literal: Syntax | undefined;
}

/** A text, or an expression that is none: a list, an object, a function. */
type Value = Text | { readonly node: Syntax; readonly file: string };

/** Where an expression is evaluated. */
interface Site {
  readonly file: string;
  /** How many further names and calls may be followed. */
  readonly depth: number;
}

const depthMax = 14;
/** Calls whose result has the elements of the list that they are called on. */
const sameElements = new Set([
  'concat',
  'entries',
  'filter',
  'reverse',
  'slice',
  'sort',
  'toReversed',
  'toSorted',
  'values',
]);
/** Calls that give each element of a list to their first argument. */
const iterating = new Set([
  'every',
  'filter',
  'find',
  'findIndex',
  'findLast',
  'flatMap',
  'forEach',
  'map',
  'some',
]);
const sameText = new Set(['toString', 'trim', 'valueOf']);

const isText = (value: Value): value is Text => 'text' in value;

/** The texts that an expression of a file may have; those that are known at run time only are missing, or a `*` in their place. */
export const textsOf = (expression: Syntax, file: string): readonly Text[] =>
  valuesOf(expression, { file, depth: depthMax }).filter(isText);

/** What an expression may be that is no text: objects, lists, functions, and calls whose result is not known. */
export const nodesOf = (
  expression: Syntax,
  file: string,
): readonly { readonly node: Syntax; readonly file: string }[] =>
  valuesOf(expression, { file, depth: depthMax }).flatMap((value) => (isText(value) ? [] : [value]));

/** The values of a property of an object. */
export const propertyOf = (object: Syntax, name: string, file: string): readonly Syntax[] =>
  propertiesOf(object, { file, depth: depthMax }).flatMap(([key, value]) => (key === name ? [value] : []));

function valuesOf(expression: Syntax, site: Site): readonly Value[] {
  if (site.depth <= 0) return [];
  const node = plain(expression);
  const inner: Site = { ...site, depth: site.depth - 1 };
  const next = (...fields: readonly string[]): readonly Value[] =>
    fields.flatMap((field) => {
      const each = child(node, field);
      return each === undefined ? [] : valuesOf(each, inner);
    });
  switch (node.type) {
    case 'Literal':
      return typeof node['value'] === 'string'
        ? [{ text: node['value'], file: site.file, literal: node['ofKey'] === true ? undefined : node }]
        : [];
    case 'TemplateLiteral':
      return compose(templateParts(node), inner);
    case 'BinaryExpression':
      return node['operator'] === '+' ? compose([child(node, 'left'), child(node, 'right')], inner) : [];
    case 'ConditionalExpression':
      return next('consequent', 'alternate');
    case 'LogicalExpression':
      return next('left', 'right');
    case 'AwaitExpression':
      return next('argument');
    case 'ChainExpression':
      return next('expression');
    case 'Identifier': {
      const binding = bindingOf(node);
      return binding === undefined ? [] : boundValues(binding, inner);
    }
    case 'MemberExpression':
      return memberValues(node, inner);
    case 'CallExpression':
      return calledValues(node, inner);
    default:
      return [{ node, file: site.file }];
  }
}

/** The texts between the expressions of a template, and these. */
const templateParts = (node: Syntax): readonly (string | Syntax)[] =>
  children(node, 'quasis').flatMap((quasi, index) => {
    const text = String((quasi['value'] as { readonly cooked?: unknown }).cooked);
    const expression = children(node, 'expressions')[index];
    return expression === undefined ? [text] : [text, expression];
  });

/** Every text that the parts make together; `*` stands for a part that is known at run time only. */
const compose = (parts: readonly (string | Syntax | undefined)[], site: Site): readonly Text[] =>
  parts.reduce<readonly Text[]>(
    (before, part) => {
      const texts =
        typeof part === 'string'
          ? [{ text: part, file: site.file }]
          : part === undefined
            ? []
            : valuesOf(part, site).filter(isText);
      const more = texts.length === 0 ? [{ text: '*', file: site.file }] : texts;
      return before.flatMap(({ text, file }) =>
        more.map((each) => ({
          text: text + each.text,
          // A part that a caller gives makes it the text of that caller.
          file: each.file === site.file ? file : each.file,
          literal: undefined,
        })),
      );
    },
    [{ text: '', file: site.file, literal: undefined }],
  );

const boundValues = (binding: Binding, site: Site): readonly Value[] => [
  ...givenValues(binding, site),
  ...(binding.fallback === undefined ? [] : valuesOf(binding.fallback, site)),
];

function givenValues({ is, path }: Binding, site: Site): readonly Value[] {
  if (path.at(-1) === dialectPrefix.member) return [prefixText(site)];
  if (is.kind === 'import') return [];
  if (is.kind === 'parameter') return along(argumentsOf(is.of, is.index, site), path, site);
  const { node } = is;
  if (node.type !== 'VariableDeclarator') return [{ node, file: site.file }];
  const init = child(node, 'init');
  if (init !== undefined) return along(valuesOf(init, site), path, site);
  const loop = parentOf(parentOf(node) ?? node);
  const list = loop?.type === 'ForOfStatement' ? child(loop, 'right') : undefined;
  return list === undefined ? [] : along(elementsOf(list, site), path, site);
}

/** The list whose elements a call gives to its callback. */
export function iteratedList(call: Syntax): Syntax | undefined {
  const { method = '', receiver } = methodOf(call) ?? {};
  return iterating.has(method) ? receiver : undefined;
}

/** What the places that call a function give to one of its parameters. */
function argumentsOf(of: Syntax, index: number, site: Site): readonly Value[] {
  const inner: Site = { ...site, depth: site.depth - 1 };
  const parent = parentOf(of);
  if (parent?.type === 'CallExpression' && child(parent, 'callee') !== of) {
    const list = index === 0 ? iteratedList(parent) : undefined;
    return list === undefined ? [] : elementsOf(list, inner);
  }
  return callsOf(of).flatMap(({ call, use }) => {
    const there: Site = { file: fileOf(use), depth: inner.depth };
    if (child(call, 'callee') === use) {
      const argument = children(call, 'arguments')[index];
      return argument === undefined || argument.type === 'SpreadElement' ? [] : valuesOf(argument, there);
    }
    // The function itself is given to `map`, `some` or the like.
    const list = index === 0 && children(call, 'arguments')[0] === use ? iteratedList(call) : undefined;
    return list === undefined ? [] : elementsOf(list, there);
  });
}

/** The calls that name a declared function, as what they call or as an argument. */
export function callsOf(of: Syntax): readonly { readonly call: Syntax; readonly use: Syntax }[] {
  const parent = parentOf(of);
  const id = child(of.type === 'FunctionDeclaration' ? of : (parent ?? of), 'id');
  const declared = id && declaredBy(id);
  return declared === undefined
    ? []
    : usesOf(declared).flatMap((use) => {
        const call = parentOf(use);
        return call?.type === 'CallExpression' ? [{ call, use }] : [];
      });
}

/** The elements of a list, and those of sets and maps that are made of one. */
function elementsOf(list: Syntax, site: Site): readonly Value[] {
  if (site.depth <= 0) return [];
  const inner: Site = { ...site, depth: site.depth - 1 };
  return valuesOf(list, inner).flatMap((value) => {
    if (isText(value)) return [];
    const { node, file } = value;
    const there: Site = { ...inner, file };
    if (node.type === 'ArrayExpression') return listed(node, there);
    if (node.type === 'CallExpression') return elementsOfCall(node, there);
    const [made] = node.type === 'NewExpression' ? children(node, 'arguments') : [];
    return made === undefined ? [] : elementsOf(made, there);
  });
}

const listed = (array: Syntax, site: Site): readonly Value[] =>
  children(array, 'elements').flatMap((element) => {
    if (element.type !== 'SpreadElement') return valuesOf(element, site);
    const spread = child(element, 'argument');
    return spread === undefined ? [] : elementsOf(spread, site);
  });

function elementsOfCall(call: Syntax, site: Site): readonly Value[] {
  const { method: name = '', receiver: object } = methodOf(call) ?? {};
  if (object === undefined) return [];
  const [first] = children(call, 'arguments');
  if (object['name'] === 'Object' && first !== undefined) return elementsOfObject(name, first, site);
  if (sameElements.has(name))
    return [object, ...children(call, 'arguments')].flatMap((each) => elementsOf(each, site));
  if (first === undefined || (name !== 'map' && name !== 'flatMap')) return [];
  const results = valuesOf(first, site).flatMap((value) => (isText(value) ? [] : returned(value.node, site)));
  if (name === 'map') return results;
  return results.flatMap((value) =>
    isText(value) ? [] : elementsOf(value.node, { ...site, file: value.file }),
  );
}

/** The elements of `Object.keys`, `Object.values` and `Object.entries`. */
function elementsOfObject(name: string, object: Syntax, site: Site): readonly Value[] {
  const properties = valuesOf(object, site).flatMap((value) =>
    isText(value) ? [] : propertiesOf(value.node, { ...site, file: value.file }),
  );
  if (name === 'keys') return properties.map(([text]) => ({ text, file: site.file, literal: undefined }));
  if (name === 'values') return properties.flatMap(([, value]) => valuesOf(value, site));
  return properties.map(([key, value]) => ({
    node: { type: 'ArrayExpression', elements: [{ type: 'Literal', value: key, ofKey: true }, value] },
    file: site.file,
  }));
}

/** The texts that a function may return. */
export const returnTexts = (of: Syntax, file: string): readonly Text[] =>
  returned(of, { file, depth: depthMax }).filter(isText);

/** What a function may return. */
const returned = (of: Syntax, site: Site): readonly Value[] =>
  isFunction(of) ? resultsOf(of).flatMap((each) => valuesOf(each, site)) : [];

const results = new Map<Syntax, readonly Syntax[]>();

/** The expressions that a function returns. */
function resultsOf(of: Syntax): readonly Syntax[] {
  const known = results.get(of);
  if (known !== undefined) return known;
  const body = child(of, 'body');
  const found = body === undefined ? [] : body.type === 'BlockStatement' ? [...returnsIn(body)] : [body];
  results.set(of, found);
  return found;
}

function* returnsIn(node: Syntax): Generator<Syntax> {
  if (isFunction(node)) return;
  const result = node.type === 'ReturnStatement' ? child(node, 'argument') : undefined;
  if (result !== undefined) yield result;
  // Statements only: an expression returns nothing from its function.
  if (/Expression$|Literal$|^Identifier$|^TS/.test(node.type)) return;
  for (const field in node) {
    const inner = child(node, field);
    for (const each of inner === undefined ? children(node, field) : [inner]) yield* returnsIn(each);
  }
}

/** The properties of an object, with those that are spread into it. */
const propertiesOf = (object: Syntax, site: Site): readonly (readonly [key: string, value: Syntax])[] =>
  object.type !== 'ObjectExpression' || site.depth <= 0
    ? []
    : children(object, 'properties').flatMap((property) => {
        const value = child(property, 'value');
        if (value !== undefined) return keysOf(property, site).map((key) => [key, value] as const);
        const spread = child(property, 'argument');
        if (spread === undefined) return [];
        const inner: Site = { ...site, depth: site.depth - 1 };
        return valuesOf(spread, inner).flatMap((each) =>
          isText(each) ? [] : propertiesOf(each.node, inner),
        );
      });

function keysOf(property: Syntax, site: Site): readonly string[] {
  const [name, key] = [keyOf(property), child(property, 'key')];
  if (name !== undefined) return [name];
  return key === undefined ? [] : valuesOf(key, site).flatMap((value) => (isText(value) ? [value.text] : []));
}

/** The names that a property of an object may have. */
export const propertyNames = (property: Syntax, file: string): readonly string[] =>
  keysOf(property, { file, depth: depthMax });

/** What names of headers begin with: a member of every dialect, written as replies write it. */
const dialectPrefix = { member: 'headerPrefix', text: '*-' } as const;
const prefixText = ({ file }: Site): Text => ({ text: dialectPrefix.text, file, literal: undefined });

function memberValues(node: Syntax, site: Site): readonly Value[] {
  const [object, property, name] = [child(node, 'object'), child(node, 'property'), keyOf(node)];
  if (name === dialectPrefix.member) return [prefixText(site)];
  if (object === undefined || property === undefined) return [];
  const names =
    name === undefined
      ? valuesOf(property, site).flatMap((value) => (isText(value) ? [value.text] : []))
      : [name];
  return valuesOf(object, site).flatMap((value) => {
    if (isText(value)) return [];
    const there: Site = { ...site, file: value.file };
    if (value.node.type === 'ArrayExpression') {
      const element = name === undefined ? undefined : children(value.node, 'elements')[Number(name)];
      return element === undefined ? listed(value.node, there) : valuesOf(element, there);
    }
    return propertiesOf(value.node, there)
      .filter(([each]) => names.length === 0 || names.includes(each))
      .flatMap(([, each]) => valuesOf(each, there));
  });
}

function calledValues(call: Syntax, site: Site): readonly Value[] {
  const callee = child(call, 'callee');
  const itself = { node: call, file: site.file };
  if (callee === undefined) return [itself];
  if (callee.type !== 'MemberExpression') {
    const called = valuesOf(callee, site).flatMap((value) =>
      isText(value) ? [] : returned(value.node, site),
    );
    return [itself, ...called];
  }
  const [object, name] = [child(callee, 'object'), keyOf(callee) ?? ''];
  if (object === undefined) return [itself];
  if (sameText.has(name)) return valuesOf(object, site);
  if (name === 'find') return elementsOf(object, site);
  const change = {
    toLowerCase: (text: string) => text.toLowerCase(),
    toUpperCase: (text: string) => text.toUpperCase(),
  };
  if (name !== 'toLowerCase' && name !== 'toUpperCase') return [itself];
  return valuesOf(object, site)
    .filter(isText)
    .map((value) => ({ ...value, text: change[name](value.text) }));
}

/** Follows what is destructured. */
const along = (values: readonly Value[], path: Binding['path'], site: Site): readonly Value[] =>
  path.reduce<readonly Value[]>(
    (before, step) =>
      before.flatMap((value) => {
        if (step === '...') return [value];
        if (isText(value)) return [];
        const there: Site = { ...site, file: value.file };
        if (typeof step === 'string')
          return propertiesOf(value.node, there)
            .filter(([key]) => key === step)
            .flatMap(([, each]) => valuesOf(each, there));
        const element =
          value.node.type === 'ArrayExpression' ? children(value.node, 'elements')[step] : undefined;
        return element === undefined ? [] : valuesOf(element, there);
      }),
    values,
  );
