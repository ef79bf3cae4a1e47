/** A state: an icon and a word, never colour alone. */
import type { ComponentChildren } from 'preact';
import { Icon, type IconName } from './icons.tsx';

export type Tone = 'neutral' | 'good' | 'warn' | 'bad' | 'accent';

const icons: Readonly<Record<Tone, IconName>> = {
  neutral: 'info',
  good: 'check',
  warn: 'warning',
  bad: 'error',
  accent: 'clock',
};

interface ChipProps {
  readonly tone?: Tone;
  readonly icon?: IconName;
  readonly title?: string | undefined;
  readonly children: ComponentChildren;
}

export const Chip = ({ tone = 'neutral', icon = icons[tone], title, children }: ChipProps) => (
  <span class={`chip tone-${tone}`} title={title}>
    <Icon name={icon} size={14} />
    <span class="cut">{children}</span>
  </span>
);
