/**
 * One schema reads the parameters of an action and infers their types: `Tags.member.1.Key=…` becomes a list of structures. A parameter
 * that no schema names is refused, because dropping it would change the meaning of the request.
 */
import { fail, type Refusal } from '../../base/errors.ts';
import type { Parameters } from '../wire.ts';

/** A name, its value, and the parameters below it. */
interface Node {
  value: string | undefined;
  readonly children: Map<string, Node>;
}

/** Reads the value of a parameter; messages name it by its whole path. */
export type Parameter<T> = (node: Node | undefined, path: string) => T;
type Fields = Readonly<Record<string, Parameter<unknown>>>;
export type Input<F> = {
  readonly [K in keyof F]: F[K] extends Parameter<infer T> ? T : never;
};

/** No parameter of these APIs is nested deeper than `ContextEntries.member.1.ContextKeyValues.member.1`. */
const depthMax = 6;

const invalid = (path: string, problem: string): Refusal => fail('ValidationError', `${path} ${problem}.`);

function grow(parameters: Parameters): Node {
  const root: Node = { value: undefined, children: new Map() };
  for (const [name, value] of parameters) {
    const steps = name.split('.');
    if (steps.length > depthMax) throw invalid(name.slice(0, 128), 'is not a parameter');
    let node = root;
    for (const step of steps) {
      let next = node.children.get(step);
      if (next === undefined) {
        next = { value: undefined, children: new Map() };
        node.children.set(step, next);
      }
      node = next;
    }
    node.value = value;
  }
  return root;
}

/** @throws ValidationError */
export const readFields = <F extends Fields>(fields: F, parameters: Parameters): Input<F> =>
  structure(fields)(grow(parameters), '');

export function structure<F extends Fields>(fields: F): Parameter<Input<F>> {
  return (node, path) => {
    const prefix = path === '' ? '' : `${path}.`;
    if (node === undefined) throw invalid(path, 'is required');
    if (node.value !== undefined) throw invalid(path, 'is a structure, not a value');
    for (const name of node.children.keys())
      if (!Object.hasOwn(fields, name)) throw invalid(prefix + name.slice(0, 128), 'is not a parameter');
    const read = Object.entries(fields).map(([name, field]) => [
      name,
      field(node.children.get(name), prefix + name),
    ]);
    // The cast: each name was read by the field of that name.
    return Object.fromEntries(read) as Input<F>;
  };
}

interface TextRules {
  readonly pattern?: RegExp;
  readonly min?: number;
  readonly max: number;
  /** Describes what the pattern requires. */
  readonly must?: string;
}

export function text({ pattern, min = 1, max, must }: TextRules): Parameter<string> {
  return (node, path) => {
    const value = onlyValue(node, path);
    if (value.length < min || value.length > max)
      throw invalid(path, `must be ${min} to ${max} characters long`);
    if (pattern !== undefined && !pattern.test(value)) throw invalid(path, `must be ${must}`);
    return value;
  };
}

function onlyValue(node: Node | undefined, path: string): string {
  if (node === undefined) throw invalid(path, 'is required');
  if (node.value === undefined || node.children.size > 0) throw invalid(path, 'must be one value');
  return node.value;
}

export function integer({ min, max }: { readonly min: number; readonly max: number }): Parameter<number> {
  return (node, path) => {
    const value = onlyValue(node, path);
    const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw invalid(path, `must be a whole number from ${min} to ${max}`);
  };
}

export const flag: Parameter<boolean> = (node, path) => oneOf('true', 'false')(node, path) === 'true';

export function oneOf<const T extends readonly string[]>(...choices: T): Parameter<T[number]> {
  return (node, path) => {
    const value = onlyValue(node, path);
    const choice = choices.find((each) => each === value);
    if (choice === undefined) throw invalid(path, `must be one of ${choices.join(', ')}`);
    return choice;
  };
}

export const optional =
  <T>(inner: Parameter<T>): Parameter<T | undefined> =>
  (node, path) =>
    node === undefined ? undefined : inner(node, path);

/** `Name.member.1`, `Name.member.2`, …; `Name=` is the empty list, as clients write it. Absent is empty too. */
export function list<T>(
  inner: Parameter<T>,
  { min = 0, max }: { readonly min?: number; readonly max: number },
): Parameter<readonly T[]> {
  return (node, path) => {
    const members = readMembers(node, path);
    if (members.size < min || members.size > max) throw invalid(path, `must have ${min} to ${max} members`);
    return Array.from({ length: members.size }, (_, index) =>
      inner(members.get(String(index + 1)), `${path}.member.${index + 1}`),
    );
  };
}

const nothing: ReadonlyMap<string, Node> = new Map();

function readMembers(node: Node | undefined, path: string): ReadonlyMap<string, Node> {
  if (node === undefined || (node.value === '' && node.children.size === 0)) return nothing;
  const members = node.children.get('member')?.children;
  if (members === undefined || node.children.size !== 1) throw invalid(path, 'must be a list of members');
  return members;
}

// The first line of a row of the operation table: which requests ask for the operation.

export type Scope = 'service' | 'bucket' | 'object';
/** `ANY` is GET or POST: an action query, which is identified by `Action`. */
type Method = 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE' | 'OPTIONS' | 'ANY';
export type RequestLine = `${Method} ${Scope}` | `${Method} ${Scope} ${'?' | '+'}${string}`;
