/** `sluice --help`: the commands, and the flags as the settings table has them. */
import { toFlag } from '../../config/read/flags.ts';
import type { Setting } from '../../config/read/setting.ts';
import { settingNames, settings } from '../../config.ts';

const optionWidth = 24;

export function help(commands: Readonly<Record<string, { readonly doc: string }>>): string {
  const commandRows = Object.entries(commands).map(
    ([name, { doc }]) => `  ${name.padEnd(optionWidth)} ${doc}`,
  );
  const flagRows = settingNames.map((name) => {
    const setting: Setting<unknown> = settings[name];
    const from = setting.fallbackFrom === undefined ? '' : `; ${setting.fallbackFrom.doc}`;
    const fallback = setting.fallback ? ` (${setting.fallback}${from})` : '';
    return `  ${toFlag(name).padEnd(optionWidth)} ${setting.doc}${fallback}`;
  });
  return [
    'usage: sluice <command> [--flag value …]',
    '',
    'commands:',
    ...commandRows,
    `  ${'--help, --version'.padEnd(optionWidth)} This text; the version.`,
    '',
    'flags (each is also a variable: --data-dir is SVC_DATA_DIR; flags win):',
    ...flagRows,
    '',
  ].join('\n');
}
