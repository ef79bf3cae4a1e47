/** The commands of `sluice admin`, derived from the table of operations: `clusters drain <id> --mode=…` is DrainCluster. */

import { readFileSync } from 'node:fs';
import { nearest } from '../../config/nearest.ts';
import {
  type AdminOperationName,
  adminOperationNames,
  describeAdminOperation,
} from '../../protocol/admin/operations.ts';
import { isOptional } from '../../protocol/formats/json.ts';
import type { JsonSchema } from '../../protocol/formats/json-shape.ts';

interface AdminFlag {
  /** The field of the body or the parameter. */
  readonly name: string;
  readonly flag: string;
  /** `document`: the option is the whole body. */
  readonly in: 'query' | 'body' | 'document';
  readonly schema: JsonSchema;
  readonly isRequired: boolean;
}

export interface AdminCommand {
  readonly operation: AdminOperationName;
  readonly words: readonly string[];
  readonly doc: string;
  /** The parameters of the path, in order. */
  readonly parameters: readonly string[];
  readonly flags: readonly AdminFlag[];
}

const toKebab = (name: string): string =>
  name
    .replace(/(?<=[a-z0-9])[A-Z]/g, '-$&')
    .replaceAll('_', '-')
    .toLowerCase();

/** `put` is a word of HTTP; commands say `set`. */
const verbs: Readonly<Record<string, string>> = { put: 'set' };

/** Another operation does the same to one entry of the list: `logins revoke <id>` beside `logins revoke-all`. */
const hasEntries = (name: AdminOperationName, path: string): boolean => {
  const { method } = describeAdminOperation(name);
  return adminOperationNames.some((other) => {
    const row = describeAdminOperation(other);
    return (
      method !== 'GET' &&
      row.method === method &&
      row.path.startsWith(`${path}/:`) &&
      !row.path.slice(path.length + 2).includes('/')
    );
  });
};

/** The words of the path, then the verb, unless the last word says it. */
function commandWords(name: AdminOperationName, path: string): readonly string[] {
  const { command } = describeAdminOperation(name);
  if (command !== undefined) return command.split(' ');
  const words = path
    .split('/')
    .slice(3)
    .filter((part) => !part.startsWith(':'))
    .map((part) => part.replace(/\.json$/, ''));
  const kebab = toKebab(name);
  const [verb = ''] = kebab.split('-');
  if (kebab.startsWith(words.at(-1) ?? '/')) return words;
  const isOfMany = verb !== 'list' && path.endsWith(words.at(-1) ?? '/') && hasEntries(name, path);
  return [...words, `${verbs[verb] ?? verb}${isOfMany ? '-all' : ''}`];
}

function listFlags({ query, body }: ReturnType<typeof describeAdminOperation>): readonly AdminFlag[] {
  const { properties = {}, required = [], anyOf } = body?.schema ?? {};
  return [
    ...Object.entries(query).map(([name, reader]) => ({
      name,
      flag: `--${toKebab(name)}`,
      in: 'query' as const,
      schema: reader.schema,
      isRequired: !isOptional(reader),
    })),
    ...Object.entries(properties).map(([name, schema]) => ({
      name,
      flag: `--${toKebab(name)}`,
      in: 'body' as const,
      schema,
      isRequired: required.includes(name),
    })),
    ...(anyOf === undefined
      ? []
      : [{ name: 'file', flag: '--file', in: 'document' as const, schema: {}, isRequired: true }]),
  ];
}

/** Without the operations on the cookie of a browser: the command signs its requests. */
export const adminCommands: readonly AdminCommand[] = adminOperationNames
  .filter((name) => describeAdminOperation(name).cookie !== true)
  .map((name) => {
    const row = describeAdminOperation(name);
    return {
      operation: name,
      words: commandWords(name, row.path),
      doc: row.doc,
      parameters: row.parameters,
      flags: listFlags(row),
    };
  })
  .sort((a, b) => (a.words.join(' ') < b.words.join(' ') ? -1 : 1));

/** The command whose words the arguments begin with, the longest first; `get` and `list` may be left out. */
export function findAdminCommand(args: readonly string[]): AdminCommand | undefined {
  const startsWith = (words: readonly string[]): boolean =>
    words.every((word, index) => args[index] === word);
  const byLength = adminCommands.toSorted((a, b) => b.words.length - a.words.length);
  const short = byLength.filter(({ words }) => isReading(words) && startsWith(words.slice(0, -1)));
  const names = (words: readonly string[]): number => {
    const rest = args.slice(words.length - 1);
    const end = rest.findIndex((arg) => arg.startsWith('-'));
    return end < 0 ? rest.length : end;
  };
  // `clusters` lists, and `clusters b` gets one.
  return (
    byLength.find(({ words }) => startsWith(words)) ??
    short.find(({ words, parameters }) => parameters.length === names(words)) ??
    short[0]
  );
}

const isReading = (words: readonly string[]): boolean => ['get', 'list'].includes(words.at(-1) ?? '');

export function formatUsage({ words, parameters, flags }: AdminCommand): string {
  const options = flags.map(({ flag, isRequired, schema }) => {
    const type = typeof schema.type === 'object' ? schema.type.join('|') : schema.type;
    const visible = type === 'boolean' ? flag : `${flag} ${schema.enum?.join('|') ?? type ?? 'json'}`;
    return isRequired ? visible : `[${visible}]`;
  });
  return ['sluice admin', ...words, ...parameters.map((name) => `<${name}>`), ...options].join(' ');
}

export function adminHelp(prefix: readonly string[]): string {
  const chosen = adminCommands.filter(({ words }) => prefix.every((word, index) => words[index] === word));
  const visible = chosen.length === 0 ? adminCommands : chosen;
  return [
    'usage: sluice admin <command> [<name> …] [--option value …]',
    '',
    ...visible.flatMap((command) => [`  ${formatUsage(command)}`, `      ${command.doc}`]),
    '',
    'files of accounts (see docs/operations/accounts.md):',
    '  sluice admin iam export --to FILE [--account ID] [--secrets [--passphrase-file FILE]]',
    '  sluice admin iam import --from FILE [--account ID] [--passphrase-file FILE] [--dry-run] [--overwrite] [--json]',
    '',
    'options of every command:',
    '  --profile NAME, --endpoint URL   where, and with which keys; SLUICE_PROFILE, SLUICE_ENDPOINT,',
    '                                   SLUICE_ACCESS_KEY and SLUICE_SECRET_KEY are the same',
    '                                   (`replication peers set` has an --endpoint of its own)',
    '  --json                           the reply as it arrived',
    '  --watch                          follows what runs in the background until it ends; `status` until Ctrl-C',
    '  --follow                         of `requests` and `logs`: goes on with what comes',
    '  --if-match ETAG, --idempotency-key KEY',
    'A value that begins with @ is read from that file, and @- from the standard input.',
    'Exit codes: 0 done, 1 refused, failed, or something wrong was found, 2 wrong usage, 3 the gateway cannot be reached.',
    '',
  ].join('\n');
}

// Reads the arguments of `sluice admin` by the row of the operation.

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
    else if (own !== undefined) input[own.in][own.name] = readValue(own, inline ?? takeText(own, left));
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
function takeText({ flag, schema }: AdminFlag, left: string[]): string {
  if (schema.type !== 'boolean') return following(flag, left);
  return left[0] === 'true' || left[0] === 'false' ? (left.shift() ?? '') : 'true';
}

function readValue({ flag, schema }: AdminFlag, raw: string): unknown {
  const text = raw.startsWith('@') ? readSource(flag, raw.slice(1)) : raw;
  if (schema.type === 'string') return text;
  if (typeof schema.type === 'object') return readUnion(schema.type, text);
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
function readUnion(types: readonly unknown[], text: string): unknown {
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
