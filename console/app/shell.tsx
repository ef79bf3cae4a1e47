/** The frame of every page: rail, top bar with breadcrumb, banner, content. */
import { useMatches } from '@tanstack/react-router';
import type { ComponentChildren, ComponentType } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { t } from '../text/text.ts';
import { focusHeir, heirsOf } from '../ui/dialog.tsx';
import { Button } from '../ui/form.tsx';
import { Icon } from '../ui/icons.tsx';
import { Toasts } from '../ui/toast.tsx';
import { AccountMenu } from './account-menu.tsx';
import { HealthBanner, HealthDot } from './health.tsx';
import { KeyHelp, paletteKeys, useKeys } from './keys.tsx';
import { Mark } from './login.tsx';
import { PageLink } from './page-link.tsx';
import { type PageName, pageAt, pageOf } from './pages.ts';
import { Palette } from './palette.tsx';
import { Rail, useMayOpen, useRailAllowed } from './rail.tsx';
import { readStored } from './stored.ts';

export function Shell({ children }: { readonly children: ComponentChildren }) {
  const [open, setOpen] = useState<'palette' | 'help' | 'sheet'>();
  const openPalette = useCallback(() => setOpen('palette'), []);
  const openHelp = useCallback(() => setOpen('help'), []);
  const close = useCallback(() => setOpen(undefined), []);
  useKeys({ openPalette, openHelp });
  useEffect(() => (open === 'sheet' ? enterSheet(close) : undefined), [open, close]);
  const hasHealth = useRailAllowed()('GetStorageHealth') === true;
  return (
    <div class="shell">
      <a class="skip" href="#content">
        {t.shell.skip}
      </a>
      <aside class={open === 'sheet' ? 'rail is-sheet' : 'rail'}>
        <div class="rail-head">
          <Mark />
          <span class="rail-word">sluice</span>
          <Button class="sheet-close" icon="close" label={t.ui.close} onClick={close} />
        </div>
        <Rail onNavigate={close} />
      </aside>
      {open === 'sheet' && <div class="backdrop" onClick={close} aria-hidden="true" />}
      <div class="column">
        <header class="top">
          <Button class="sheet-open" icon="menu" label={t.shell.menu} onClick={() => setOpen('sheet')} />
          <Breadcrumb />
          <button type="button" class="search-button" onClick={openPalette}>
            <Icon name="search" />
            <span class="search-words">{t.shell.search}</span>
            <kbd>{paletteKeys}</kbd>
          </button>
          <HealthDot enabled={hasHealth} />
          <AccountMenu onHelp={openHelp} />
        </header>
        <HealthBanner enabled={hasHealth} />
        <main id="content" class="content" tabIndex={-1}>
          {children}
        </main>
        <UploadSlot />
      </div>
      {open === 'palette' && <Palette onClose={close} onHelp={openHelp} />}
      {open === 'help' && <KeyHelp onClose={close} />}
      <Toasts />
    </div>
  );
}

/** The sheet lies over the page: the focus moves into it, stays there, and moves back when it is closed. @returns leaves it */
function enterSheet(close: () => void): () => void {
  const before = heirsOf(document.activeElement);
  const covered = document.querySelectorAll<HTMLElement>('.skip, .column');
  for (const each of covered) each.inert = true;
  document.querySelector<HTMLElement>('.sheet-close')?.focus();
  const press = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return;
    event.preventDefault();
    close();
  };
  addEventListener('keydown', press);
  return () => {
    removeEventListener('keydown', press);
    for (const each of covered) each.inert = false;
    focusHeir(before);
  };
}

/** The bar of uploads is loaded with the first upload, and with a page where an earlier one has left some. */
function UploadSlot() {
  const [found, setFound] = useState<{ readonly Bar: ComponentType }>();
  useEffect(() => {
    const load = () => {
      import('../pages/uploads/bar.tsx').then(
        ({ default: Bar }) => setFound({ Bar }),
        () => {},
      );
    };
    if (readStored('uploads') !== undefined) load();
    addEventListener('sluice-uploads', load);
    return () => removeEventListener('sluice-uploads', load);
  }, []);
  return found === undefined ? null : <found.Bar />;
}

/** The parents of a page by its path, and its parameters by their values. */
interface Crumb {
  readonly page: PageName | undefined;
  readonly text: string;
}

function crumbsOf(id: string, params: Readonly<Record<string, string>>): readonly Crumb[] {
  const parts = id.split('/').filter((part) => part !== '' && part !== '$');
  return parts.flatMap((part, index): readonly Crumb[] => {
    const path = `/${parts.slice(0, index + 1).join('/')}`;
    // A page of a whole subtree, such as Identity, is the parent of what has a page of its own below it.
    const page = pageAt(path) ?? pageAt(`${path}/$`);
    if (page === undefined) return part.startsWith('$') ? [{ page, text: params[part.slice(1)] ?? '' }] : [];
    const value = part.startsWith('$') ? params[part.slice(1)] : undefined;
    return [{ page, text: value ?? t.pages[page] }];
  });
}

function Breadcrumb() {
  const { id, params } = useMatches({
    select: (matches) => {
      const last = matches.at(-1);
      return { id: (last?.routeId ?? '') as string, params: (last?.params ?? {}) as Record<string, string> };
    },
    structuralSharing: true,
  });
  const crumbs: readonly Crumb[] =
    id === '/' ? [{ page: 'overview', text: t.pages.overview }] : crumbsOf(id, params);
  const mayOpen = useMayOpen();
  const text = crumbs.map((crumb) => crumb.text).join(' / ');
  const seen = useRef(text);
  useEffect(() => {
    document.title = `${crumbs
      .map((crumb) => crumb.text)
      .reverse()
      .join(' · ')} · ${t.product}`;
    // A reader of the screen hears the new page; the first page has the focus where the browser put it.
    if (seen.current !== text) document.getElementById('content')?.focus({ preventScroll: true });
    seen.current = text;
  }, [text]);
  return (
    <nav class="crumbs" aria-label={t.shell.breadcrumb}>
      <ol>
        {crumbs.map(({ page, text }, index) => (
          <li key={`${index}-${text}`}>
            {index < crumbs.length - 1 &&
            page !== undefined &&
            pageOf(page).load !== undefined &&
            mayOpen(page) ? (
              <PageLink page={page} params={params}>
                {text}
              </PageLink>
            ) : (
              <span aria-current={index === crumbs.length - 1 ? 'page' : undefined} dir="auto">
                {text}
              </span>
            )}
          </li>
        ))}
      </ol>
    </nav>
  );
}
