/** Command-line flags: each setting is one, `SVC_DATA_DIR` is `--data-dir`. */
import { type SettingName, settingNames, settings } from '../../config.ts';
import { nearest } from './nearest.ts';
import type { Setting } from './setting.ts';

export const toFlag = (name: SettingName): string =>
  `--${name.slice('SVC_'.length).toLowerCase().replaceAll('_', '-')}`;

/** The option of `openGateway`: `SVC_DATA_DIR` is `dataDir`. */
export const toOption = (name: string): string =>
  name
    .replace(/^SVC_/, '')
    .toLowerCase()
    .replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** The settings that are options of `openGateway`, by option. */
export const settingByOption: ReadonlyMap<string, SettingName> = new Map(
  settingNames
    .filter((name) => (settings[name] as Setting<unknown>).onlyServer !== true)
    .map((name) => [toOption(name), name]),
);

const nameByFlag: ReadonlyMap<string, SettingName> = new Map(
  settingNames.map((name) => [toFlag(name), name]),
);
const bareTexts = ['on', 'off', 'true', 'false'];

export interface ParsedFlags {
  /** Texts by setting name; of a repeated flag the last one counts. */
  readonly given: Partial<Readonly<Record<SettingName, string>>>;
  /** Flags of the command itself, such as `--json`, as they were given. */
  readonly own: readonly string[];
  readonly faults: readonly string[];
}

/**
 * Reads `--flag value` and `--flag=value`.
 * @param own flags of the command itself: without a value, or `--flag=` for `--flag=value`
 */
export function parseFlags(args: readonly string[], own: readonly string[] = []): ParsedFlags {
  const given: Partial<Record<SettingName, string>> = {};
  const seen: string[] = [];
  const faults: string[] = [];
  const left = [...args];
  for (let arg = left.shift(); arg !== undefined; arg = left.shift()) {
    const [flag = '', inline] = arg.split(/=(.*)/s);
    if (own.includes(inline === undefined ? flag : `${flag}=`)) {
      seen.push(arg);
      continue;
    }
    const name = nameByFlag.get(flag);
    if (name === undefined) {
      faults.push(unknownFlag(flag, own));
      // The argument after an unknown flag is probably its value, and not a second fault.
      if (flag.startsWith('--') && inline === undefined && left[0]?.startsWith('--') === false) left.shift();
      continue;
    }
    const text = inline ?? followingText(name, left);
    if (text === undefined) faults.push(`${flag} needs a value`);
    else given[name] = text;
  }
  return { given, own: seen, faults };
}

/** Takes the value after a flag; a switch needs none. */
function followingText(name: SettingName, left: string[]): string | undefined {
  const { bareFlag }: Setting<unknown> = settings[name];
  const next = left[0];
  if (next === undefined || next.startsWith('--')) return bareFlag;
  return bareFlag === undefined || bareTexts.includes(next) ? left.shift() : bareFlag;
}

function unknownFlag(flag: string, own: readonly string[]): string {
  if (!flag.startsWith('-')) return `"${flag}" is not expected here`;
  const close = nearest(flag, [...nameByFlag.keys(), ...own]);
  return `${flag} is not a flag${close === undefined ? '' : `; ${close} is`}`;
}
