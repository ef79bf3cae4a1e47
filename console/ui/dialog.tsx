/** Dialogs for confirmation, help and the palette; panels at the right for details and forms. */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Button } from './form.tsx';
import { GuardsForms } from './unsaved.ts';

const rows = '[data-row], li';
/** What had the focus when a dialog or panel was opened, and its heirs. */
const openers = new WeakMap<Element, readonly HTMLElement[]>();

function* elementsFrom(
  begin: Element,
  step: 'nextElementSibling' | 'previousElementSibling',
): Generator<Element> {
  for (let at = begin[step]; at !== null; at = at[step]) yield at;
}

/**
 * What gets the focus of an element, the first that is there still: itself, the rows after and before its own, the fields of its form, what
 * surrounds it, and what a dialog or panel around it was opened from. Rows and surroundings do nothing when a key is pressed once more.
 */
export function heirsOf(element: Element | null): readonly HTMLElement[] {
  const heirs: (Element | undefined)[] = [element ?? undefined];
  for (let at = element; at !== null; at = at.parentElement) {
    if (at.matches(rows))
      heirs.push(
        at,
        ...[...elementsFrom(at, 'nextElementSibling'), ...elementsFrom(at, 'previousElementSibling')].filter(
          (each) => each.matches(rows),
        ),
      );
    else if (at.matches('form')) heirs.push(...at.querySelectorAll('input, select, textarea'));
    else if (at.matches('section, main')) heirs.push(at);
    heirs.push(...(openers.get(at) ?? []));
  }
  return heirs.filter((each) => each instanceof HTMLElement);
}

/** Gives the focus to the first that can have it. */
export function focusHeir(heirs: readonly HTMLElement[]): void {
  const heir = heirs.find(
    (each) =>
      each.isConnected && each.checkVisibility({ visibilityProperty: true }) && !each.matches(':disabled'),
  );
  if (heir === undefined) return;
  if (heir.tabIndex < 0) heir.tabIndex = -1;
  heir.focus({ preventScroll: true });
}

/** The focus goes back from a dialog or panel to what it was opened from. @returns gives it back */
function takeFocus(element: HTMLElement): () => void {
  const heirs = heirsOf(document.activeElement);
  openers.set(element, heirs);
  return () => {
    const { activeElement } = document;
    if (activeElement === document.body || element.contains(activeElement)) focusHeir(heirs);
  };
}

interface DialogProps {
  readonly title: string;
  readonly hideTitle?: boolean;
  readonly class?: string;
  readonly children: ComponentChildren;
  readonly onClose: () => void;
}

export function Dialog({ title, hideTitle = false, class: className = '', children, onClose }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    if (element === null) return undefined;
    const giveBack = takeFocus(element);
    element.showModal();
    // Otherwise the button that closes has the focus.
    element.querySelector<HTMLElement>('input, select, textarea')?.focus();
    return giveBack;
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`dialog ${className}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      // The backdrop belongs to the dialog: a click there has the dialog itself as its target.
      onMouseDown={(event) => event.target === dialog.current && onClose()}
    >
      <div class="dialog-inside">
        <header class={hideTitle ? 'visually-hidden' : 'dialog-head'}>
          <h2 id={id}>{title}</h2>
          {!hideTitle && <Button icon="close" label={t.ui.close} onClick={onClose} />}
        </header>
        <GuardsForms.Provider value={false}>{children}</GuardsForms.Provider>
      </div>
    </dialog>
  );
}

interface PanelProps {
  readonly title: ComponentChildren;
  readonly children: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly onClose: () => void;
}

/** Details or a form beside the list that stays. Its URL belongs to the page: the page shows a panel because its address says so. */
export function Panel({ title, children, actions, onClose }: PanelProps) {
  const panel = useRef<HTMLElement>(null);
  const id = useId();
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    const element = panel.current;
    const giveBack = element === null ? () => {} : takeFocus(element);
    element?.focus({ preventScroll: true });
    const listen = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || document.querySelector('dialog[open]') !== null) return;
      event.preventDefault();
      close.current();
    };
    addEventListener('keydown', listen);
    return () => {
      removeEventListener('keydown', listen);
      giveBack();
    };
  }, []);
  return (
    <section class="panel" ref={panel} tabIndex={-1} aria-labelledby={id}>
      <header class="panel-head">
        <h2 id={id} dir="auto">
          {title}
        </h2>
        {actions}
        <Button icon="close" label={t.ui.close} onClick={onClose} />
      </header>
      <div class="panel-body">
        <GuardsForms.Provider value>{children}</GuardsForms.Provider>
      </div>
    </section>
  );
}
