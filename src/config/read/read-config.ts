/** Reads all settings from the texts of an environment and of flags. */

import { maskPasswords } from '../../base/text/mask-secrets.ts';
import { type Config, type Environment, type SettingName, settings } from '../../config.ts';
import { checks } from '../checks.ts';
import { type Found, masked, type Reading, readSettings } from './read.ts';
import type { Setting } from './setting.ts';

/** The texts from which each configuration was read. */
const textsOf = new WeakMap<Config, readonly Found[]>();

/** Reads every setting and records where each value came from; flags win over the environment. */
export function readConfig(env: Environment, flags: Environment = {}): Reading<Config> {
  const reading = readSettings<Config>(settings, { env, flags, checks });
  if (reading.config !== undefined) textsOf.set(reading.config, reading.found);
  return reading;
}

/** The settings of a configuration as they were given; empty for one that was not read from texts. */
export const textsOfConfig = (config: Config): readonly Found[] => textsOf.get(config) ?? [];

export interface ShownSetting {
  readonly name: string;
  readonly value: string | null;
  readonly default: string | null;
  readonly source: Found['source'];
  readonly doc: string;
}

/** A setting as operators may see it: secrets are masked. */
export function showSetting({ name, text, source }: Found): ShownSetting {
  const setting: Setting<unknown> = settings[name as SettingName];
  const shown = text && maskPasswords(text, masked);
  const value = setting.secret === true && text !== undefined ? masked : shown;
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
