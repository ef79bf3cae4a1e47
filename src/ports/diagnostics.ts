/** What a process tells about itself in a support bundle. */
export interface Diagnostics {
  readonly version: string;
  /** Its runtime, platform, age and memory. */
  process(): Readonly<Record<string, unknown>>;
  /** The last lines of its log of level WARN and ERROR, without secrets, the oldest first. */
  lastErrors(): readonly string[];
}
