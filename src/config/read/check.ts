/** A rule about settings that depend on each other. */
import type { Config, SettingName } from '../../config.ts';

/** It is passed over when a setting that it reads has a fault of its own. */
export interface Check {
  readonly reads: readonly SettingName[];
  readonly find: (config: Config) => string | undefined;
}
