/** Command-line flags: each setting is one, `SVC_DATA_DIR` is `--data-dir`. */
import { type SettingName, settingNames, settings } from '../config.ts';
import { nearest } from './nearest.ts';
import type { Setting } from './setting.ts';

export const flagOf = (name: SettingName): string =>
  `--${name.slice('SVC_'.length).toLowerCase().replaceAll('_', '-')}`;

const nameByFlag: ReadonlyMap<string, SettingName> = new Map(
  settingNames.map((name) => [flagOf(name), name]),
);
const bareTexts = ['on', 'off', 'true', 'false'];

export interface ParsedFlags {
  /** Texts by setting name; of a repeated flag the last one counts. */
  readonly given: Partial<Readonly<Record<SettingName, string>>>;
  /** Flags of the command itself, such as `--json`. */
  readonly own: readonly string[];
  readonly faults: readonly string[];
}

/** Reads `--flag value` and `--flag=value`. @param own flags without a value that the command knows itself */
export function parseFlags(args: readonly string[], own: readonly string[] = []): ParsedFlags {
  const given: Partial<Record<SettingName, string>> = {};
  const seen: string[] = [];
  const faults: string[] = [];
  for (let index = 0; index < args.length; index += 1) {
    const arg = args[index] ?? '';
    const at = arg.indexOf('=');
    const flag = at < 0 ? arg : arg.slice(0, at);
    const name = nameByFlag.get(flag);
    if (own.includes(arg)) seen.push(arg);
    else if (name === undefined) faults.push(unknownFlag(flag, own));
    else if (at >= 0) given[name] = arg.slice(at + 1);
    else {
      const next = args[index + 1];
      const { bareFlag }: Setting<unknown> = settings[name];
      const takesNext =
        next !== undefined && (bareFlag === undefined ? !next.startsWith('--') : bareTexts.includes(next));
      if (takesNext) index += 1;
      if (!takesNext && bareFlag === undefined) faults.push(`${flag} needs a value`);
      else given[name] = takesNext ? next : (bareFlag ?? '');
    }
  }
  return { given, own: seen, faults };
}

function unknownFlag(flag: string, own: readonly string[]): string {
  if (!flag.startsWith('-')) return `"${flag}" is not expected here`;
  const close = nearest(flag, [...nameByFlag.keys(), ...own]);
  return `${flag} is not a flag${close === undefined ? '' : `; ${close} is`}`;
}
