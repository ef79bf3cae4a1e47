/** Reads the arguments of `sluice admin` by the row of the operation. */
import { readFileSync } from 'node:fs';
import { nearest } from '../../config/nearest.ts';
import type { AdminCommand, AdminFlag } from './commands.ts';

export class UsageFault extends Error {}

export interface AdminArguments {
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  /** The fields of the body, or the whole body from `--file`. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Options of every command, such as `--profile`. */
  readonly common: Readonly<Record<string, string>>;
}

const commonValues = ['--profile', '--endpoint', '--if-match', '--idempotency-key'];
const commonSwitches = ['--json', '--watch', '--follow'];

/** @throws UsageFault */
export function readArguments(command: AdminCommand, args: readonly string[]): AdminArguments {
  const left = [...args];
  const names: string[] = [];
  const common: Record<string, string> = {};
  let document: Readonly<Record<string, unknown>> | undefined;
  const input = { query: {} as Record<string, unknown>, body: {} as Record<string, unknown> };
  for (let arg = left.shift(); arg !== undefined; arg = left.shift()) {
    if (!arg.startsWith('--')) {
      names.push(arg);
      continue;
    }
    const [option = '', inline] = arg.split(/=(.*)/s);
    const own = command.flags.find(({ flag }) => flag === option);
    // A peer has an endpoint too: the options of the operation come first.
    if (own?.in === 'document') document = readDocument(own.flag, inline ?? following(option, left));
    else if (own !== undefined) input[own.in][own.name] = readValue(own, inline ?? textOf(own, left));
    else if (commonSwitches.includes(option)) common[option] = 'true';
    else if (commonValues.includes(option)) common[option] = inline ?? following(option, left);
    else throw unknownOption(command, option);
  }
  assertComplete(command, names, { ...input, document: { file: document } });
  const path = Object.fromEntries(command.parameters.map((name, index) => [name, names[index] ?? '']));
  return { path, query: input.query, body: document ?? input.body, common };
}

function unknownOption({ flags }: AdminCommand, option: string): UsageFault {
  const known = [...flags.map(({ flag }) => flag), ...commonSwitches, ...commonValues];
  const close = nearest(option, known);
  return new UsageFault(
    `${option} is no option of this command; ${close === undefined ? `known are ${known.join(', ')}` : `${close} is`}`,
  );
}

function assertComplete(
  { flags, parameters }: AdminCommand,
  names: readonly string[],
  input: Readonly<Record<AdminFlag['in'], Readonly<Record<string, unknown>>>>,
): void {
  const missing = parameters[names.length];
  if (missing !== undefined) throw new UsageFault(`<${missing}> is missing`);
  const surplus = names[parameters.length];
  if (surplus !== undefined) throw new UsageFault(`"${surplus}" is not expected here`);
  const absent = flags.find(
    ({ isRequired, name, in: where }) => isRequired && input[where][name] === undefined,
  );
  if (absent !== undefined) throw new UsageFault(`${absent.flag} is missing`);
}

function following(option: string, left: string[]): string {
  const value = left.shift();
  if (value === undefined) throw new UsageFault(`${option} needs a value`);
  return value;
}

/** A switch needs no value. */
function textOf({ flag, schema }: AdminFlag, left: string[]): string {
  if (schema.type !== 'boolean') return following(flag, left);
  return left[0] === 'true' || left[0] === 'false' ? (left.shift() ?? '') : 'true';
}

function readValue({ flag, schema }: AdminFlag, raw: string): unknown {
  const text = raw.startsWith('@') ? readSource(flag, raw.slice(1)) : raw;
  if (schema.type === 'string') return text;
  if (typeof schema.type === 'object') return readOneOf(schema.type, text);
  if (schema.type === 'boolean') {
    if (text === 'true' || text === 'false') return text === 'true';
    throw new UsageFault(`${flag} must be true or false`);
  }
  if (schema.type === 'integer' || schema.type === 'number') {
    if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
    throw new UsageFault(`${flag} must be a number`);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageFault(`${flag} must be JSON, such as '{"a":1}'`);
  }
}

/** A number, a size such as 10GiB, or `null`. */
function readOneOf(types: readonly unknown[], text: string): unknown {
  if (text === 'null' && types.includes('null')) return null;
  return /^-?\d+$/.test(text) ? Number(text) : text;
}

/** The value of `--file` is the name of a file, as that of other options is behind an @. */
function readDocument(flag: string, file: string): Readonly<Record<string, unknown>> {
  try {
    // The cast: the gateway checks the document.
    return JSON.parse(readSource(flag, file.replace(/^@/, ''))) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    if (cause instanceof UsageFault) throw cause;
    throw new UsageFault(`${flag}: ${file} is not JSON: ${(cause as Error).message}`);
  }
}

/** Secrets in arguments would be visible to every user of the machine. */
function readSource(flag: string, file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8').replace(/\r?\n$/, '');
  } catch (cause) {
    throw new UsageFault(`${flag}: ${(cause as Error).message}`);
  }
}
