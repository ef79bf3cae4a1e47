/** Reads a whole table of settings at once, with every fault, every warning and the source of each value. */
import { maskPasswords } from '../../base/text/mask-secrets.ts';
import { nearest } from './nearest.ts';
import type { Given, Read, Setting } from './setting.ts';

export type Source = 'flag' | 'env' | 'default';

/** One setting, its value and its source. */
export interface Found {
  readonly name: string;
  /** The text that was read; undefined when the setting is unset. */
  readonly text: string | undefined;
  readonly source: Source;
}

export interface Reading<Config> {
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

export interface ReadOptions<Config> {
  readonly env: Texts;
  readonly flags: Texts;
  readonly checks: {
    readonly faults: readonly CrossCheck<Config>[];
    readonly warnings: readonly CrossCheck<Config>[];
  };
}

/** Shown in place of a secret. */
export const masked = '********';

/** A flag hides the variable even when it is empty: `--data-dir=` unsets the variable's value. */
function lookUp(name: string, setting: AnySetting, { env, flags }: { env: Texts; flags: Texts }): Found {
  const source = flags[name] !== undefined ? 'flag' : 'env';
  const text = flags[name] ?? env[name];
  if (text === undefined || (text.trim() === '' && setting.emptyIsValue !== true)) {
    return { name, text: undefined, source: 'default' };
  }
  return { name, text: text.trim(), source };
}

function resolveDefault(setting: AnySetting, given: Given): string | undefined {
  return setting.fallbackFrom?.read(given) ?? setting.fallback;
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
  const given: Given = (name) => set.get(name)?.text;
  const values: Record<string, unknown> = {};
  const faults: string[] = [];
  const warnings = [...unknownNames({ ...env, ...flags }, Object.keys(table))];
  const found = rows.map(([name, setting]) => {
    const { source, text = resolveDefault(setting, given) } = set.get(name) ?? { source: 'default' };
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
