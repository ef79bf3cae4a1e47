/** The routes, made from the table of pages. */

import type { ErrorComponentProps } from '@tanstack/react-router';
import { type AnyRoute, createRootRoute, createRoute, createRouter, Outlet } from '@tanstack/react-router';
import { Failure, NotFound } from '../ui/states.tsx';
import { UnsavedGuard } from '../ui/unsaved-guard.tsx';
import { basePath } from './base-path.ts';
import { lazyPage } from './lazy-page.tsx';
import { builtPages, type PageName, pageAt, pageOf } from './pages.ts';
import { Shell } from './shell.tsx';
import { parseSearch, writeSearch } from './url.ts';

function Broken({ error, reset }: ErrorComponentProps) {
  return <Failure error={error} onRetry={reset} />;
}

const root = createRootRoute({
  component: () => (
    <Shell>
      <Outlet />
      <UnsavedGuard />
    </Shell>
  ),
  notFoundComponent: NotFound,
  errorComponent: Broken,
});

function addRoutes(parent: AnyRoute, within: PageName | undefined): AnyRoute[] {
  return builtPages
    .filter((name) => pageOf(name).within === within)
    .map((name) => {
      const { path, load } = pageOf(name);
      const route = createRoute({
        getParentRoute: () => parent,
        path,
        // The cast: pages are components without properties; `builtPages` have `load`.
        component: lazyPage(load as NonNullable<typeof load>) as never,
      }) as unknown as AnyRoute;
      const inner = addRoutes(route, name);
      return inner.length === 0 ? route : (route.addChildren(inner) as AnyRoute);
    });
}

export const router = createRouter({
  routeTree: root.addChildren(addRoutes(root as unknown as AnyRoute, undefined)),
  basepath: `${basePath}/console`,
  parseSearch,
  stringifySearch: writeSearch,
  defaultPreload: 'intent',
  defaultPreloadStaleTime: 0,
  defaultPendingMs: 150,
  scrollRestoration: true,
  defaultErrorComponent: Broken,
  defaultNotFoundComponent: NotFound,
});

/** Begins to load the code of the page at the address of the window. */
export function preloadPage(): void {
  const { pathname, search } = router.latestLocation;
  for (const { routeId } of router.matchRoutes(pathname, search)) {
    const name = pageAt(routeId as string);
    if (name !== undefined)
      pageOf(name)
        .load?.()
        .catch(() => {});
  }
}
