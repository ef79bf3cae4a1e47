/**
 * For forms that replace a whole document, which another client may have replaced since the form was opened. Before it is saved the
 * document is read again; where it is another one, the form shows the difference, and nothing is stored.
 */
import { useRef, useState } from 'preact/hooks';
import { words } from '../text/text.ts';
import { Diff } from './diff.tsx';
import { Icon } from './icons.tsx';

const w = words({
  en: {
    stale:
      'It was changed since you opened it, so nothing was stored. Your text would now make the changes below. Save again to make them.',
  },
  de: {
    stale:
      'Es wurde geändert, seit Sie es geöffnet haben, darum wurde nichts gespeichert. Ihr Text würde jetzt die Änderungen unten machen. Speichern Sie noch einmal, um sie zu machen.',
  },
});

export interface StaleCheck {
  /** The document that the text of the form is compared with. */
  readonly base: string;
  /** The last save was stopped. */
  readonly isStale: boolean;
  /** Reads the document again. @returns whether it is the base still; a later save is compared with what was read */
  isCurrent(readStored: () => Promise<string>): Promise<boolean>;
  /** After a save, for a form that stays open. */
  rebase(stored: string): void;
}

/**
 * @param stored what was read last; '' where nothing is stored
 * @param isEdited false: the form shows `stored`, so that it is the base
 */
export function useStaleCheck(stored: string, isEdited: boolean): StaleCheck {
  const base = useRef(stored);
  const [isStale, setStale] = useState(false);
  if (!isEdited && !isStale) base.current = stored;
  const rebase = (next: string, isNowStale: boolean) => {
    base.current = next;
    setStale(isNowStale);
  };
  return {
    base: base.current,
    isStale,
    isCurrent: async (readStored) => {
      const now = await readStored();
      const isCurrent = now === base.current;
      rebase(now, !isCurrent);
      return isCurrent;
    },
    rebase: (next) => rebase(next, false),
  };
}

export const StaleNotice = () => (
  <p class="fault" role="alert">
    <Icon name="warning" /> {w.stale}
  </p>
);

/** The notice with the difference, for a form that shows none by itself. */
export const Stale = ({ check, text }: { readonly check: StaleCheck; readonly text: string }) =>
  check.isStale ? (
    <>
      <StaleNotice />
      <Diff before={check.base} after={text} />
    </>
  ) : null;
