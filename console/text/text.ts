/** The words of the console: chosen once, when the page is loaded. A page has its own words beside it (`words`). */
import { readStored, writeStored } from '../app/stored.ts';
import { en } from './en.ts';

export type Text = typeof en;

export const languages = { en: 'English', de: 'Deutsch' } as const;
export type Language = keyof typeof languages;

const isLanguage = (text: string | undefined): text is Language => text !== undefined && text in languages;

function chooseLanguage(): Language {
  const stored = readStored('language');
  if (isLanguage(stored)) return stored;
  const preferred = navigator.languages.map((each) => each.slice(0, 2)).find(isLanguage);
  return preferred ?? 'en';
}

export const language: Language = chooseLanguage();

/** The words that the shell and the kit use. English until `loadText` has resolved. */
export let t: Text = en;

/** Before the first component renders: another language is a chunk of its own. */
export async function loadText(): Promise<void> {
  document.documentElement.lang = language;
  if (language === 'de') t = (await import('./de.ts')).de;
}

/** Words are read where modules are loaded, so another language takes effect with a new page. */
export function chooseOther(next: Language): void {
  writeStored('language', next);
  location.reload();
}

/** The same words with any text. */
type Widened<T> = {
  readonly [K in keyof T]: T[K] extends string
    ? string
    : T[K] extends (...args: infer A) => string
      ? (...args: A) => string
      : Widened<T[K]>;
};

/** The words of one page, in every language: a language that lacks one does not compile. */
export const words = <const T>(all: { readonly en: T; readonly de: Widened<NoInfer<T>> }): Widened<T> =>
  // The cast: English has the wider type's shape by its inference.
  (language === 'de' ? all.de : all.en) as Widened<T>;

const formats = new Map<string, Intl.NumberFormat>();
/** A number as this language writes it. */
export function formatNumber(value: number | bigint, options: Intl.NumberFormatOptions = {}): string {
  const key = JSON.stringify(options);
  const known = formats.get(key);
  const format = known ?? new Intl.NumberFormat(language, options);
  if (known === undefined) formats.set(key, format);
  return format.format(value);
}
