/** A menu under a button. It closes with Escape, with a click elsewhere, and when the focus leaves it. */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { type ChoiceProps, SelectInput } from './form.tsx';
import { Icon, type IconName } from './icons.tsx';

interface MenuProps {
  readonly label: string;
  readonly button: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Menu({ label, button, children }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const menu = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!isOpen) return;
    const leave = (event: Event) => {
      if (event.target instanceof Node && !menu.current?.contains(event.target)) setOpen(false);
    };
    const press = (event: KeyboardEvent) => {
      if (event.key !== 'Escape') return;
      event.preventDefault();
      setOpen(false);
      opener.current?.focus();
    };
    addEventListener('pointerdown', leave);
    addEventListener('focusin', leave);
    addEventListener('keydown', press);
    return () => {
      removeEventListener('pointerdown', leave);
      removeEventListener('focusin', leave);
      removeEventListener('keydown', press);
    };
  }, [isOpen]);
  return (
    <div class="menu" ref={menu}>
      <button
        ref={opener}
        type="button"
        class="button menu-opener"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <span class="visually-hidden">{label}: </span>
        {button}
        <Icon name="down" size={14} />
      </button>
      {isOpen && <div class="menu-list">{children}</div>}
    </div>
  );
}

interface MenuButtonProps {
  readonly icon: IconName;
  readonly children: ComponentChildren;
  readonly onClick: () => void;
}

export const MenuButton = ({ icon, children, onClick }: MenuButtonProps) => (
  <button type="button" class="menu-entry" onClick={onClick}>
    <Icon name={icon} />
    <span>{children}</span>
  </button>
);

interface MenuChoiceProps<V extends string> extends ChoiceProps<V> {
  readonly label: string;
}

export function MenuChoice<V extends string>({ label, ...choice }: MenuChoiceProps<V>) {
  const id = useId();
  return (
    <div class="menu-choice">
      <label for={id}>{label}</label>
      <SelectInput {...choice} id={id} />
    </div>
  );
}
