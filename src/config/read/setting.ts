/** What a setting is: how its text is read, what it defaults to, and the words that document it. */

/** A value, with a warning when the text was taken differently from how it was written; or what is wrong with it. */
export type Read<T> =
  | { readonly value: T; readonly warning?: string }
  /** Each fault continues the sentence that `NAME=value` starts. */
  | { readonly faults: readonly string[] };

/** The text of another setting; undefined when it is not set. */
export type Given = (name: string) => string | undefined;

export interface Setting<T> {
  /** The kind of value, for the reference page. */
  readonly kind: string;
  readonly doc: string;
  /** The text that stands in when nothing is set; undefined leaves the setting unset. */
  readonly fallback: string | undefined;
  /** Where the default depends on other settings: overrides `fallback` when it gives a text. */
  readonly fallbackFrom?: { readonly doc: string; readonly read: (given: Given) => string | undefined };
  readonly range?: string;
  readonly outside?: 'refused' | 'clamped';
  readonly secret?: true;
  /** An empty text is a value of its own; everywhere else it counts as unset. */
  readonly emptyIsValue?: true;
  /** A flag of this setting may stand without a value. */
  readonly bareFlag?: string;
  readonly read: (text: string) => Read<T>;
}

export type ValueOf<S> = S extends Setting<infer T> ? T : never;

export const fault = (...faults: readonly string[]): { readonly faults: readonly string[] } => ({ faults });
export const value = <T>(parsed: T): { readonly value: T } => ({ value: parsed });

/** The setting may stay unset. */
export const optional = <T>(setting: Setting<T>): Setting<T | undefined> => ({
  ...setting,
  fallback: undefined,
});

/** The value is never printed. */
export const secret = <T>(setting: Setting<T>): Setting<T> => ({ ...setting, secret: true });
