/** A rule about settings that depend on each other. */
import type { Config, SettingName } from '../config.ts';

/** The check is skipped when a setting that it reads has a fault. */
export interface Check {
  readonly reads: readonly SettingName[];
  readonly find: (config: Config) => string | undefined;
}
