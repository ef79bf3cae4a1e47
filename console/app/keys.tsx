/** The keyboard: one listener for the whole console. Keys that type into a field are never taken. */
import { useEffect } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Dialog, focusHeir, heirsOf } from '../ui/dialog.tsx';

export const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Rows mark themselves by `data-row`; the list of the page is the first that is visible. */
function moveRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')].filter(
    (row) => row.offsetParent !== null,
  );
  if (rows.length === 0) return;
  const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const next =
    rows[at < 0 ? (step === 1 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

/** What has the focus may be removed or disabled, such as the button that deletes its row: the focus goes to a neighbour. */
function keepFocus(): () => void {
  let heirs: readonly HTMLElement[] = [];
  const isLost = () => document.activeElement === document.body;
  const see = ({ target }: FocusEvent) => {
    heirs = target instanceof Element ? heirsOf(target) : [];
  };
  const leave = () =>
    setTimeout(() => {
      const [last] = heirs;
      if (last === undefined || !isLost() || !last.isConnected) return;
      if (last.matches(':disabled')) focusHeir(heirs);
      // The user has clicked beside it.
      else heirs = [];
    });
  const observer = new MutationObserver(() => {
    if (isLost() && heirs[0]?.isConnected === false) focusHeir(heirs);
  });
  observer.observe(document.body, { childList: true, subtree: true });
  addEventListener('focusin', see);
  addEventListener('focusout', leave);
  return () => {
    observer.disconnect();
    removeEventListener('focusin', see);
    removeEventListener('focusout', leave);
  };
}

interface KeyActions {
  readonly openPalette: () => void;
  readonly openHelp: () => void;
}

export function useKeys({ openPalette, openHelp }: KeyActions): void {
  useEffect(keepFocus, []);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey) {
        event.preventDefault();
        openPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector('dialog[open]') !== null) return;
      const taken = {
        '/': () => document.querySelector<HTMLElement>('[data-filter]')?.focus(),
        j: () => moveRow(1),
        k: () => moveRow(-1),
        '?': openHelp,
      }[event.key];
      if (taken === undefined) return;
      event.preventDefault();
      taken();
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, [openPalette, openHelp]);
}

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);
export const paletteKeys = isMac ? '⌘ K' : 'Ctrl K';

export function KeyHelp({ onClose }: { readonly onClose: () => void }) {
  const rows: readonly (readonly [string, string])[] = [
    [paletteKeys, t.keys.palette],
    ['/', t.keys.filter],
    ['j k', t.keys.rows],
    ['Enter', t.keys.open],
    ['u', t.keys.uploads],
    ['Esc', t.keys.close],
    ['?', t.keys.help],
  ];
  return (
    <Dialog title={t.keys.title} onClose={onClose}>
      <dl class="keys">
        {rows.map(([keys, text]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
