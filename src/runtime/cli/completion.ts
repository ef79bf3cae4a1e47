/**
 * What `sluice admin` completes. `sluice completion bash|zsh|fish` prints a script that completes commands and options from the table.
 * "Did you mean": the nearest command for unknown words, and the nearest name that the caller may list for one that does not exist.
 */
import type { AdminClient } from '../../admin-client.ts';
import { nearest } from '../../config/nearest.ts';
import { type AdminOperationName, describeAdminOperation } from '../../protocol/admin/operations.ts';
import { type AdminCommand, adminCommands } from './commands.ts';

/** The words before the first option; the others may be its value. */
const leadingWords = (args: readonly string[]): readonly string[] => {
  const end = args.findIndex((arg) => arg.startsWith('-'));
  return end < 0 ? args : args.slice(0, end);
};

/** The command whose words are nearest, each at its place: `bukets lst` is `buckets list`. */
function nearestWords(words: readonly string[]): readonly string[] | undefined {
  let known = adminCommands.map((command) => command.words);
  const found: string[] = [];
  for (const [place, word] of words.entries()) {
    const choices = [...new Set(known.flatMap((each) => each[place] ?? []))];
    if (choices.length === 0) break;
    const chosen = choices.includes(word) ? word : nearest(word, choices);
    // The words after a command are its names.
    if (chosen === undefined) break;
    found.push(chosen);
    known = known.filter((each) => each[place] === chosen);
  }
  return found.length === 0 || found.every((word, place) => word === words[place]) ? undefined : found;
}

/**
 * Whether the words are one more than the reading command takes, because a verb is misspelt: `buckets delte photos` is
 * no `buckets get`.
 */
export function isMisspelt({ words, parameters }: AdminCommand, args: readonly string[]): boolean {
  const input = leadingWords(args);
  const isShort = !words.every((word, place) => input[place] === word);
  return isShort && input.length > words.length - 1 + parameters.length && nearestWords(input) !== undefined;
}

/** Why the words are no command, and what is meant. */
export function explainUnknownCommand(args: readonly string[]): string {
  const words = leadingWords(args);
  const [noun = ''] = words;
  const isNoun = adminCommands.some((command) => command.words[0] === noun);
  const meant = nearestWords(words);
  const hint =
    meant === undefined
      ? `see sluice admin ${isNoun ? `${noun} ` : ''}--help`
      : `did you mean "${meant.join(' ')}"?`;
  return `"${words.join(' ')}" is no command; ${hint}`;
}

/** What lists the names of a collection, and the fields of its reply that have them. */
const lists: Readonly<Record<string, readonly [AdminOperationName, list: string, field: string]>> = {
  accounts: ['ListAccounts', 'rows', 'account'],
  buckets: ['ListBuckets', 'rows', 'name'],
  clusters: ['ListClusters', 'clusters', 'id'],
  groups: ['ListIamGroups', 'rows', 'name'],
  peers: ['ListReplicationPeers', 'peers', 'id'],
  policies: ['ListIamPolicies', 'rows', 'name'],
  roles: ['ListIamRoles', 'rows', 'name'],
  targets: ['GetNotifyTargets', 'targets', 'id'],
  users: ['ListIamUsers', 'rows', 'name'],
  workers: ['ListWorkers', 'workers', 'worker'],
};

type Path = Readonly<Record<string, string>>;
type Options = Readonly<Record<string, unknown>>;

/** Options whose value is a name of a collection. */
const completedOptions: Readonly<Record<string, string>> = {
  account: 'accounts',
  bucket: 'buckets',
  cluster: 'clusters',
  policy: 'policies',
  target: 'targets',
};

interface Named {
  readonly collection: string;
  readonly value: string;
}

/** The names of the path, in its order; `/iam/users/{user}` is an account. */
function namesOfPath(operation: AdminOperationName, path: Path): readonly Named[] {
  const parts = describeAdminOperation(operation).path.split('/');
  return parts.flatMap((part, place) => {
    const value = part.startsWith(':') ? path[part.slice(1)] : undefined;
    const [collection = '', above = ''] = [parts[place - 1], parts[place - 2]];
    return value === undefined ? [] : [{ collection: above === 'iam' ? 'accounts' : collection, value }];
  });
}

/** The names among the options; `--kind user --name alice` is a user. */
function namesOfOptions(options: Options): readonly Named[] {
  const texts = Object.entries(options).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  const kind = options['kind'];
  return texts.flatMap(([option, value]) => {
    const collection =
      option === 'name' && kind !== undefined ? `${String(kind)}s` : completedOptions[option];
    return collection === undefined ? [] : [{ collection, value }];
  });
}

/**
 * The nearest name that the gateway lists to this caller, for the first name of the path or of the options that it does not list;
 * undefined where none is near.
 * @throws AdminRefused where the caller may not list the names
 */
export async function suggestName(
  client: AdminClient,
  { operation }: Pick<AdminCommand, 'operation'>,
  { path, options }: { readonly path: Path; readonly options: Options },
): Promise<string | undefined> {
  for (const { collection, value } of [...namesOfPath(operation, path), ...namesOfOptions(options)]) {
    const list = lists[collection];
    if (list === undefined) continue;
    const names = await listNames(client, list, path);
    // An ARN ends with the name.
    const name = value.slice(value.lastIndexOf('/') + 1);
    if (names.includes(name)) continue;
    const close = nearest(name, names);
    return close === undefined ? undefined : `${value.slice(0, value.length - name.length)}${close}`;
  }
  return undefined;
}

async function listNames(
  client: AdminClient,
  [operation, list, field]: readonly [AdminOperationName, string, string],
  path: Path,
): Promise<readonly string[]> {
  // The casts: the operations of the table above take these parameters, and reply with such lists.
  const { json } = await client.call(operation, { path: path as never });
  const rows = (json as unknown as Readonly<Record<string, readonly Path[]>>)[list] ?? [];
  return rows.flatMap((row) => row[field] ?? []);
}

const shells = ['bash', 'zsh', 'fish'] as const;

/** By the words so far, what may come next. */
function candidates(others: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const next = new Map<string, Set<string>>([['', new Set(others)]]);
  const add = (before: readonly string[], word: string): void => {
    const key = before.join(' ');
    if (!next.has(key)) next.set(key, new Set());
    next.get(key)?.add(word);
  };
  for (const { words, flags } of adminCommands) {
    const all = ['admin', ...words];
    for (const [index, word] of all.entries()) add(all.slice(0, index), word);
    for (const { flag } of flags) add(all, flag);
    add(all, '--json');
  }
  return new Map([...next].map(([key, words]) => [key, [...words].sort()]));
}

/**
 * Names and values are skipped: options are completed behind them too. Words of the table have no character that a
 * shell would interpret.
 */
function bash(others: readonly string[]): string {
  const all = candidates(others);
  const cases = [...all].map(
    ([before, words]) => `    "${before}") COMPREPLY=($(compgen -W "${words.join(' ')}" -- "$word")) ;;`,
  );
  return [
    // biome-ignore-start lint/suspicious/noTemplateCurlyInString: the shell expands these.
    '_sluice() {',
    '  local word="${COMP_WORDS[COMP_CWORD]}" before="" next each',
    `  local known="|${[...all.keys()].join('|')}|"`,
    '  for each in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do',
    '    next="${before:+$before }$each"',
    '    case "$known" in *"|$next|"*) before="$next" ;; esac',
    '  done',
    // biome-ignore-end lint/suspicious/noTemplateCurlyInString: the shell expands these.
    '  case "$before" in',
    ...cases,
    '  esac',
    '}',
    'complete -F _sluice sluice',
    '',
  ].join('\n');
}

const zsh = (others: readonly string[]): string =>
  [
    '(( $+functions[compdef] )) || { autoload -U compinit && compinit; }',
    'autoload -U +X bashcompinit && bashcompinit',
    bash(others),
  ].join('\n');

function fish(others: readonly string[]): string {
  const all = candidates(others);
  return [
    `set -g __sluice_known ${[...all.keys()].map((before) => `'${before}'`).join(' ')}`,
    'function __sluice_before',
    "  set -l before ''",
    '  for each in (commandline -opc)[2..-1]',
    '    set -l next (string trim -- "$before $each")',
    '    contains -- "$next" $__sluice_known; and set before "$next"',
    '  end',
    '  echo "$before"',
    'end',
    ...[...all].map(
      ([before, words]) =>
        `complete -c sluice -f -n 'test (__sluice_before) = "${before}"' -a '${words.join(' ')}'`,
    ),
    '',
  ].join('\n');
}

const scripts = { bash, zsh, fish };

/** @returns the exit code */
export function runCompletion([shell = '', ...rest]: readonly string[], others: readonly string[]): number {
  const known = shells.find((each) => each === shell);
  if (known === undefined || rest.length > 0) {
    process.stderr.write(`sluice: usage: sluice completion ${shells.join('|')}\n`);
    return 2;
  }
  process.stdout.write(scripts[known](others));
  return 0;
}
