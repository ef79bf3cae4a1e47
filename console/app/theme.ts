/** Light, dark, or what the system says. */
import { readStored, writeStored } from './stored.ts';

export const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

export const currentTheme = (): Theme => themes.find((each) => each === readStored('theme')) ?? 'system';

export function applyTheme(theme: Theme = currentTheme()): void {
  writeStored('theme', theme === 'system' ? undefined : theme);
  const { dataset } = document.documentElement;
  if (theme === 'system') delete dataset['theme'];
  else dataset['theme'] = theme;
  // Charts are drawn with the colours of the theme.
  dispatchEvent(new Event('sluice-theme'));
}
