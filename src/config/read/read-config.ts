/** Reads all settings from the texts of an environment and of flags. */
import { type Config, type Environment, type SettingName, settings } from '../../config.ts';
import { checks } from '../checks.ts';
import { type Reading, readSettings } from './read.ts';

/** Reads every setting and records where each value came from; flags win over the environment. */
export function readConfig(env: Environment, flags: Environment = {}): Reading<Config> {
  return readSettings<Config>(settings, { env, flags, checks });
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
