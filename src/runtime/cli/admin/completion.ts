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

/** Words of the table have no character that a shell would interpret. */
function bash(others: readonly string[]): string {
  const cases = [...candidates(others)].map(
    ([before, words]) => `    "${before}") COMPREPLY=($(compgen -W "${words.join(' ')}" -- "$word")) ;;`,
  );
  return [
    // biome-ignore-start lint/suspicious/noTemplateCurlyInString: the shell expands these.
    '_sluice() {',
    '  local word="${COMP_WORDS[COMP_CWORD]}" before="" known="" each',
    '  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    '    case "$each" in -*) ;; *) before="${before:+$before }$each" ;; esac',
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
  ['autoload -U +X bashcompinit && bashcompinit', bash(others)].join('\n');

function fish(others: readonly string[]): string {
  const lines = [...candidates(others)].map(([before, words]) => {
    const condition =
      before === ''
        ? '__fish_use_subcommand'
        : `test (string join " " (commandline -opc)[2..-1]) = "${before}"`;
    return `complete -c sluice -f -n '${condition}' -a '${words.join(' ')}'`;
  });
  return `${lines.join('\n')}\n`;
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
