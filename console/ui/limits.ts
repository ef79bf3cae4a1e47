/** Forms of limits, where an empty field is unlimited. */
import { useRef } from 'preact/hooks';
import { words } from '../text/text.ts';

export const w = words({
  en: {
    zero: '0 would mean unlimited. Leave the field empty for that; the smallest limit is 1.',
    changed: (now: string) =>
      `Another client has set this to ${now === '' ? 'unlimited' : now} meanwhile, so nothing was stored. Save again to replace it.`,
  },
  de: {
    zero: '0 hieße unbegrenzt. Lassen Sie das Feld dafür leer; die kleinste Grenze ist 1.',
    changed: (now: string) =>
      `Ein anderer Client hat dies inzwischen auf ${now === '' ? 'unbegrenzt' : now} gesetzt, darum wurde nichts gespeichert. Speichern Sie noch einmal, um es zu ersetzen.`,
  },
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

/**
 * What the fields showed when they were edited: a form replaces no value that another client has set since and that it has not shown.
 * A later save replaces the value that the fault names.
 */
export function useBases<Name extends string>(shownText: (name: Name) => string) {
  const bases = useRef<Partial<Record<Name, string>>>({});
  return {
    edit(name: Name) {
      bases.current[name] ??= shownText(name);
    },
    /** @returns the first of the changed fields that is stored otherwise now, and the fault to show there */
    findConflict(
      changed: readonly (readonly [name: Name, text: string])[],
      presentText: (name: Name) => string,
    ): readonly [name: Name, fault: string] | undefined {
      const conflicts = changed.flatMap(([name]) => {
        const now = presentText(name);
        const isShown = now === (bases.current[name] ?? shownText(name));
        bases.current[name] = now;
        return isShown ? [] : [[name, w.changed(now)] as const];
      });
      return conflicts[0];
    },
    clear() {
      bases.current = {};
    },
  };
}
