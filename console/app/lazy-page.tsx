/** A page whose code is loaded when it is opened. Code that does not arrive is a failure within the shell, so that what is open elsewhere stays. */
import type { ComponentType } from 'preact';
import { useCallback, useEffect, useState } from 'preact/hooks';
import { words } from '../text/text.ts';
import { PlainFailure, Skeleton } from '../ui/states.tsx';
import { basePath } from './base-path.ts';

const w = words({
  en: {
    failed: 'This page could not be loaded.',
    hint: 'The gateway or the network does not answer. The rest of the console stays as it is.',
  },
  de: {
    failed: 'Diese Seite ließ sich nicht laden.',
    hint: 'Das Gateway oder das Netz antwortet nicht. Der Rest der Konsole bleibt, wie er ist.',
  },
});

type Load = () => Promise<{ readonly default: ComponentType }>;

/** The script of this document, whose name has the hash of the build. */
const script = document.querySelector('script[type=module]')?.getAttribute('src') ?? '';
/** The document of the build that a reload was made for: gateways of two builds behind one address must not reload it again and again. */
const reloadKey = 'sluice-build';

/** Code of an earlier build is gone for good: the document of the new one replaces this. */
async function reloadForNewBuild(): Promise<void> {
  const response = await fetch(`${basePath}/console/`, { credentials: 'same-origin' });
  const fresh = /src="([^"]*\/console\/assets\/[^"]*)"/.exec(await response.text())?.[1];
  if (!response.ok || fresh === undefined || fresh === script) return;
  if (sessionStorage.getItem(reloadKey) === fresh) return;
  sessionStorage.setItem(reloadKey, fresh);
  location.reload();
}

export function lazyPage(load: Load): ComponentType & { readonly preload: () => Promise<void> } {
  let Page: ComponentType | undefined;
  const read = async (): Promise<void> => {
    Page ??= (await load()).default;
  };
  function LazyPage() {
    const [hasFailed, setFailed] = useState(false);
    const [isBusy, setBusy] = useState(false);
    const open = useCallback(async () => {
      setBusy(true);
      try {
        await read();
      } catch {
        setFailed(true);
        await reloadForNewBuild().catch(() => {});
      } finally {
        setBusy(false);
      }
    }, []);
    useEffect(() => {
      if (Page === undefined) open().catch(() => {});
    }, [open]);
    if (Page !== undefined) return <Page />;
    if (!hasFailed) return <Skeleton />;
    return <PlainFailure text={w.failed} hint={w.hint} isBusy={isBusy} onRetry={open} />;
  }
  // The router waits for it before it shows the page; the component shows what has failed.
  return Object.assign(LazyPage, { preload: () => read().catch(() => {}) });
}
