/** `sluice completion bash|zsh|fish`: a script that completes commands and options of `sluice admin` from the table. */
import { adminCommands } from './commands.ts';

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

/** Names and values are skipped: options are completed behind them too. Words of the table have no character that a shell would interpret. */
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
