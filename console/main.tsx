/** The entry: words, theme, then the session, and the router within it. */
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { render } from 'preact';
import { queries } from './app/queries.ts';
import { preloadPage, router } from './app/router.tsx';
import { hasNoCookie, SessionGate } from './app/session.tsx';
import { applyTheme } from './app/theme.ts';
import { loadText } from './text/text.ts';

applyTheme();
// The code of the page arrives while the gateway says who is logged in.
if (!hasNoCookie()) preloadPage();
await loadText();
const app = document.getElementById('app');
if (app !== null)
  render(
    <QueryClientProvider client={queries}>
      <SessionGate>
        <RouterProvider router={router} />
      </SessionGate>
    </QueryClientProvider>,
    app,
  );
