/**
 * What is lost where it is left: a secret that is shown once, and the text of an edited form. Every way out (Esc, ×, Back, another row, tab
 * or page) changes the address, so that `UnsavedGuard` can ask before each of them.
 */
import { createContext } from 'preact';
import { useCallback, useLayoutEffect, useState } from 'preact/hooks';

type Kind = 'secret' | 'form';

const unsaved = new Map<object, Kind>();

export const holdsSecret = (): boolean => [...unsaved.values()].includes('secret');

/** Submissions that run. A form that closes its panel after it has saved is left without a question. */
let submissions = 0;

export const isBlocked = (): boolean => unsaved.size > 0 && submissions === 0;

/** Whether the forms here are guarded: those of panels are, those of dialogs are not. */
export const GuardsForms = createContext(false);

/**
 * @param first what the component would lose from its beginning on
 * @returns sets what it would lose; undefined: nothing. Its end unsets it.
 */
export function useUnsaved(first?: Kind): (kind: Kind | undefined) => void {
  const [key] = useState({ isGone: false });
  useLayoutEffect(() => {
    if (first !== undefined) unsaved.set(key, first);
    return () => {
      key.isGone = true;
      unsaved.delete(key);
    };
  }, [key, first]);
  return useCallback(
    (kind) => {
      // A form that closes its panel while it is submitted ends before its submission does.
      if (kind === undefined || key.isGone) unsaved.delete(key);
      else unsaved.set(key, kind);
    },
    [key],
  );
}

export async function submitting<T>(submit: () => Promise<T>): Promise<T> {
  submissions += 1;
  try {
    return await submit();
  } finally {
    submissions -= 1;
  }
}
