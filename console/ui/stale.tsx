/**
 * For forms that replace a whole document, which another client may have replaced since the form was opened. Before it is saved the
 * document is read again; where it is another one, the form shows the difference, and nothing is stored.
 */
import { useRef, useState } from 'preact/hooks';
import { type AdminOperationName, type Answer, type Ask, Refused, request } from '../app/client.ts';
import { queries } from '../app/queries.ts';
import { words } from '../text/text.ts';
import { Diff } from './diff.tsx';
import { Button } from './form.tsx';
import { Icon } from './icons.tsx';

const w = words({
  en: {
    stale:
      'It was changed since you opened it, so nothing was stored. Your text would now make the changes below. Save again to make them.',
    reload: 'Take what is stored now',
    changed: 'It was changed meanwhile, so nothing was done. The page shows it as it is now.',
  },
  de: {
    stale:
      'Es wurde geändert, seit Sie es geöffnet haben, darum wurde nichts gespeichert. Ihr Text würde jetzt die Änderungen unten machen. Speichern Sie noch einmal, um sie zu machen.',
    reload: 'Übernehmen, was jetzt gespeichert ist',
    changed: 'Es wurde inzwischen geändert, darum wurde nichts getan. Die Seite zeigt es, wie es jetzt ist.',
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

interface StaleNoticeProps {
  readonly check: StaleCheck;
  /** Puts what is stored into the form, instead of what was edited. */
  readonly onReload: (stored: string) => void;
}

export const StaleNotice = ({ check: { base, rebase }, onReload }: StaleNoticeProps) => (
  <div class="stack" role="alert">
    <p class="fault">
      <Icon name="warning" /> {w.stale}
    </p>
    <div class="actions">
      <Button
        icon="refresh"
        onClick={({ currentTarget }) => {
          const form = currentTarget instanceof HTMLButtonElement ? currentTarget.form : null;
          // The button goes with the notice: the focus goes to what was replaced.
          form?.querySelector<HTMLElement>('textarea, input')?.focus();
          form?.reset();
          rebase(base);
          onReload(base);
        }}
      >
        {w.reload}
      </Button>
    </div>
  </div>
);

/** The notice with the difference, for a form that shows none by itself. */
export const Stale = ({ text, ...notice }: StaleNoticeProps & { readonly text: string }) =>
  notice.check.isStale ? (
    <>
      <StaleNotice {...notice} />
      <Diff before={notice.check.base} after={text} />
    </>
  ) : null;

/** The condition of a change of what was read; undefined: nothing was set. */
export const conditionOnPresent = (
  present: { readonly etag: string | undefined } | undefined,
): { readonly ifMatch?: string; readonly ifNoneMatch?: '*' } => {
  if (present === undefined) return { ifNoneMatch: '*' };
  return present.etag === undefined ? {} : { ifMatch: present.etag };
};

interface Displayed<N extends AdminOperationName> {
  readonly isSame: (present: Answer<N>) => boolean;
  /** The operation that the page displays it with. */
  readonly by: AdminOperationName;
}

/**
 * The condition of a change that is confirmed: it applies only to the state that the page displays.
 * @throws Refused where another client has changed that state; the page reads it again
 */
export async function conditionOn<N extends AdminOperationName>(
  name: N,
  ask: Ask<N>,
  { isSame, by }: Displayed<N>,
): Promise<{ readonly ifMatch?: string }> {
  const { json, etag } = await request(name, ask);
  if (isSame(json)) return conditionOnPresent({ etag });
  await queries.invalidateQueries({ queryKey: [by] });
  throw new Refused(412, { code: 'PreconditionFailed', message: w.changed });
}
