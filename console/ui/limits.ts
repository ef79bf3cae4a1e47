/** Forms of limits, where an empty field is unlimited. */
import { words } from '../text/text.ts';

export const w = words({
  en: { zero: '0 would mean unlimited. Leave the field empty for that; the smallest limit is 1.' },
  de: { zero: '0 hieße unbegrenzt. Lassen Sie das Feld dafür leer; die kleinste Grenze ist 1.' },
});

/** Whether the text is 0, with a unit or without. */
export const isZero = (text: string): boolean => /^0+(?:\.0+)?\s*[a-z]*$/i.test(text.trim());

/**
 * The fields whose text differs from the stored one. A form sends only these, because another client may have changed the others since
 * the form was opened.
 */
export const findChanged = <Name extends string>(
  names: readonly Name[],
  texts: Readonly<Partial<Record<string, string>>>,
  textOf: (name: Name) => string,
): readonly (readonly [name: Name, text: string])[] =>
  names.flatMap((name) => {
    const text = texts[name]?.trim();
    return text === undefined || text === textOf(name) ? [] : [[name, text] as const];
  });
