/** Reads all settings from the texts of an environment and of flags. */
import { type Config, type Environment, type SettingName, settings } from '../../config.ts';
import { checks } from '../checks.ts';
import { type Reading, readSettings } from './read.ts';

/** Reads every setting and says where each value came from; flags win over the environment. */
export function readConfig(env: Environment, flags: Environment = {}): Reading<Config> {
  return readSettings<Config>(settings, { env, flags, checks });
}

/** Every fault at once: an operator mends the environment in one round. */
export function parseConfig(
  env: Environment,
  flags: Environment = {},
): Config | { readonly faults: readonly string[] } {
  const { config, faults } = readConfig(env, flags);
  return config ?? { faults };
}

/** Defaults but for the given texts; for tests and embedding. Throws what a start would print. */
export function configWith(texts: Partial<Readonly<Record<SettingName, string>>> = {}): Config {
  const { config, faults } = readConfig(texts);
  if (config === undefined) throw new Error(faults.join('\n'));
  return config;
}
