/** Dialogs for confirmation, help and the palette; panels at the right for details and forms. */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Button } from './form.tsx';
import { GuardsForms } from './unsaved.ts';

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
    const before = document.activeElement;
    dialog.current?.showModal();
    // Otherwise the button that closes has the focus.
    dialog.current?.querySelector<HTMLElement>('input, select, textarea')?.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
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
    const before = document.activeElement;
    panel.current?.focus({ preventScroll: true });
    const listen = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || document.querySelector('dialog[open]') !== null) return;
      event.preventDefault();
      close.current();
    };
    addEventListener('keydown', listen);
    return () => {
      removeEventListener('keydown', listen);
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
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
