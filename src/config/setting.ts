/** A setting: how its text is parsed, its default, and its documentation. */

/** A value, with a warning when the text was taken differently from how it was written; or what is wrong with it. */
export type Read<T> =
  | { readonly value: T; readonly warning?: string }
  /** Each fault continues the sentence that `NAME=value` starts. */
  | { readonly faults: readonly string[] };

/** The text of another setting; undefined when it is not set. */
export type Input = (name: string) => string | undefined;

export interface Setting<T> {
  /** The kind of value, for the reference page. */
  readonly kind: string;
  readonly doc: string;
  /** The text that is used when nothing is set; undefined leaves the setting unset. */
  readonly fallback: string | undefined;
  /** For a default that depends on other settings: overrides `fallback` when it returns a text. */
  readonly fallbackFrom?: { readonly doc: string; readonly read: (input: Input) => string | undefined };
  readonly range?: string;
  readonly outside?: 'refused' | 'clamped';
  readonly secret?: true;
  /** An empty text is a value; for other settings it counts as unset. */
  readonly emptyIsValue?: true;
  /** The value of the flag when it is given without one. */
  readonly bareFlag?: string;
  /** Only `sluice serve` obeys it: an application that embeds the gateway has a server, a log and an exporter of its own. */
  readonly onlyServer?: true;
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

export const onlyServer = <T>(setting: Setting<T>): Setting<T> => ({ ...setting, onlyServer: true });

/** The value is never printed. */
export const secret = <T>(setting: Setting<T>): Setting<T> => ({ ...setting, secret: true });
