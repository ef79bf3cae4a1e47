/** What a process tells operators about itself. */
import type { RecentLines } from '../base/recent-entries.ts';

export interface Diagnostics {
  readonly version: string;
  /** `host:pid`. */
  readonly name: string;
  /** Its runtime, platform, age and memory. */
  process(): Readonly<Record<string, unknown>>;
  /** The last lines of its log, without secrets. */
  readonly lines: RecentLines;
}
