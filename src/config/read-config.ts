/** Command-line flags: each setting is one, `SVC_DATA_DIR` is `--data-dir`. */

import { maskPasswords } from '../base/text/mask-secrets.ts';
import { type Config, type Environment, type SettingName, settingNames, settings } from '../config.ts';
import { checks } from './checks.ts';
import { nearest } from './nearest.ts';
import type { Input, Read, Setting } from './setting.ts';

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
  readonly input: Partial<Readonly<Record<SettingName, string>>>;
  /** Flags of the command itself, such as `--json`, as they were given. */
  readonly own: readonly string[];
  readonly faults: readonly string[];
}

/**
 * Reads `--flag value` and `--flag=value`.
 * @param own flags of the command itself: without a value, or `--flag=` for `--flag=value`
 */
export function parseFlags(args: readonly string[], own: readonly string[] = []): ParsedFlags {
  const input: Partial<Record<SettingName, string>> = {};
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
    else input[name] = text;
  }
  return { input, own: seen, faults };
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

// Reads a whole table of settings at once, with every fault, every warning and the source of each value.

type Source = 'flag' | 'env' | 'default';

/** One setting, its value and its source. */
export interface Found {
  readonly name: string;
  /** The text that was read; undefined when the setting is unset. */
  readonly text: string | undefined;
  readonly source: Source;
}

interface Reading<Config> {
  /** Present when there is no fault. */
  readonly config?: Config;
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
  readonly found: readonly Found[];
}

type Texts = Readonly<Record<string, string | undefined>>;
interface CrossCheck<Config> {
  readonly reads: readonly string[];
  readonly find: (config: Config) => string | undefined;
}
type AnySetting = Setting<unknown>;

interface ReadOptions<Config> {
  readonly env: Texts;
  readonly flags: Texts;
  readonly checks: {
    readonly faults: readonly CrossCheck<Config>[];
    readonly warnings: readonly CrossCheck<Config>[];
  };
}

/** Shown in place of a secret. */
const masked = '********';

/** A flag hides the variable even when it is empty: `--data-dir=` unsets the variable's value. */
function lookUp(name: string, setting: AnySetting, { env, flags }: { env: Texts; flags: Texts }): Found {
  const source = flags[name] !== undefined ? 'flag' : 'env';
  const text = flags[name] ?? env[name];
  if (text === undefined || (text.trim() === '' && setting.emptyIsValue !== true)) {
    return { name, text: undefined, source: 'default' };
  }
  return { name, text: text.trim(), source };
}

function resolveDefault(setting: AnySetting, input: Input): string | undefined {
  return setting.fallbackFrom?.read(input) ?? setting.fallback;
}

const sentence = (name: string, setting: AnySetting, text: string | undefined, reason: string): string => {
  const start = setting.secret === true ? name : `${name}=${text}`;
  // An address must not have a password, but may have been given with one.
  return maskPasswords(reason.startsWith(':') ? `${start}${reason}` : `${start} ${reason}`, masked);
};

function unknownNames(env: Texts, known: readonly string[]): readonly string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith('SVC_') && !known.includes(name))
    .map((name) => {
      const close = nearest(name, known);
      return `${name} is not a setting${close === undefined ? '' : `; ${close} is`}`;
    });
}

export function readSettings<Config>(
  table: Readonly<Record<string, AnySetting>>,
  { env, flags, checks }: ReadOptions<Config>,
): Reading<Config> {
  const rows = Object.entries(table);
  const set = new Map(rows.map(([name, setting]) => [name, lookUp(name, setting, { env, flags })]));
  const input: Input = (name) => set.get(name)?.text;
  const values: Record<string, unknown> = {};
  const faults: string[] = [];
  const warnings = [...unknownNames({ ...env, ...flags }, Object.keys(table))];
  const found = rows.map(([name, setting]) => {
    const { source, text = resolveDefault(setting, input) } = set.get(name) ?? { source: 'default' };
    const result: Read<unknown> = text === undefined ? { value: undefined } : setting.read(text);
    if ('faults' in result) faults.push(...result.faults.map((why) => sentence(name, setting, text, why)));
    else {
      values[name] = result.value;
      if (result.warning !== undefined) warnings.push(sentence(name, setting, text, result.warning));
    }
    return { name, text, source } satisfies Found;
  });
  const config = values as Config;
  const findings = (list: readonly CrossCheck<Config>[]): readonly string[] =>
    list
      .filter(({ reads }) => reads.every((name) => name in values))
      .flatMap(({ find }) => find(config) ?? []);
  faults.push(...findings(checks.faults));
  warnings.push(...findings(checks.warnings));
  return { ...(faults.length === 0 ? { config: Object.freeze(config) } : {}), faults, warnings, found };
}

// Reads all settings from the texts of an environment and of flags.

/** A value that is no text, as the text of its setting: a list of texts joined by commas, any other list or object as JSON. */
export function toSettingText(value: unknown): string {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value.join(',');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** The texts from which each configuration was read. */
const textsByConfig = new WeakMap<Config, readonly Found[]>();

/** Reads every setting and records where each value came from; flags win over the environment. */
export function readConfig(env: Environment, flags: Environment = {}): Reading<Config> {
  const reading = readSettings<Config>(settings, { env, flags, checks });
  if (reading.config !== undefined) textsByConfig.set(reading.config, reading.found);
  return reading;
}

/** The settings of a configuration as they were given; empty for one that was not read from texts. */
export const textsOfConfig = (config: Config): readonly Found[] => textsByConfig.get(config) ?? [];

/** A configuration with other values for some settings. Operators are still shown what was given. */
export function changeConfig(config: Config, values: Partial<Config>): Config {
  const changed = Object.freeze({ ...config, ...values });
  textsByConfig.set(changed, textsOfConfig(config));
  return changed;
}

interface DescribedSetting {
  readonly name: string;
  readonly value: string | null;
  readonly default: string | null;
  readonly source: Found['source'];
  readonly doc: string;
}

/** A setting as operators may see it: secrets are masked. */
export function showSetting({ name, text, source }: Found): DescribedSetting {
  const setting: Setting<unknown> = settings[name as SettingName];
  const visible = text && maskPasswords(text, masked);
  const value = setting.secret === true && text !== undefined ? masked : visible;
  return {
    name,
    value: value ?? null,
    default: setting.fallback ?? null,
    source,
    doc: setting.doc,
  };
}

/** Reports every fault at once, so that an operator can correct all of them. */
export function parseConfig(
  env: Environment,
  flags: Environment = {},
): Config | { readonly faults: readonly string[] } {
  const { config, faults } = readConfig(env, flags);
  return config ?? { faults };
}

/** Defaults except for the given texts; for tests and embedding. Throws the message that a start would print. */
export function configWith(texts: Partial<Readonly<Record<SettingName, string>>> = {}): Config {
  const { config, faults } = readConfig(texts);
  if (config === undefined) throw new Error(faults.join('\n'));
  return config;
}
