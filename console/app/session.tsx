/** Who is logged in. Without a log-in the page shows the log-in form in its place and keeps its address. */
import { type ComponentChildren, createContext } from 'preact';
import { useCallback, useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { forgetCredentials } from '../storage/credentials.ts';
import { hearTabs, tellTabs } from './channel.ts';
import { type Answer, call, Refused, setCsrfToken, whenRefused } from './client.ts';
import { logIn, publishLogIn, setLook } from './log-in.ts';
import { Login } from './login.tsx';
import { queries } from './queries.ts';
import { forgetReads } from './reads.ts';

export type Session = Answer<'GetSession'>;

interface SessionApi {
  readonly session: Session;
  logOut(): Promise<void>;
}

const SessionContext = createContext<SessionApi | undefined>(undefined);

export function useSession(): SessionApi {
  const found = useContext(SessionContext);
  if (found === undefined) throw new Error('no session here');
  return found;
}

type State =
  | { readonly is: 'asking' }
  | { readonly is: 'out'; readonly unreachable: boolean; readonly notes?: readonly string[] }
  | { readonly is: 'in'; readonly session: Session }
  /** The log-in has ended while pages were open: they stay, behind the form. */
  | { readonly is: 'expired'; readonly session: Session };

/** Undefined where the caller is not logged in. A reply without a CSRF token is not one of a log-in. */
async function ask(): Promise<Session | undefined> {
  try {
    const session = await call('GetSession');
    return session?.csrfToken === undefined ? undefined : session;
  } catch (cause) {
    if (cause instanceof Refused && cause.status < 500) return undefined;
    throw cause;
  }
}

/** As the gateway saw it when it sent the page: scripts cannot see the cookie. */
export const hasNoCookie = (): boolean =>
  document.querySelector('meta[name=login]')?.getAttribute('content') === 'none';

export function SessionGate({ children }: { readonly children: ComponentChildren }) {
  const [state, setState] = useState<State>({ is: 'asking' });
  const lastLook = useRef(0);
  // The log-in whose replies are shown. What it was refused stays refused: asked for again, it would bring the next refusal.
  const token = useRef<string | undefined>(undefined);
  const enter = useCallback((session: Session) => {
    const isNew = token.current !== session.csrfToken || logIn().is !== 'in';
    // Those of an earlier log-in have ended with it.
    if (isNew) forgetCredentials();
    token.current = session.csrfToken;
    setCsrfToken(session.csrfToken);
    setState((before) => {
      // Another caller must not see what the one before has read.
      if ('session' in before && before.session.accessKey !== session.accessKey) {
        queries.clear();
        forgetReads();
      }
      return { is: 'in', session };
    });
    publishLogIn({ is: 'in', accessKey: session.accessKey });
    if (isNew) queries.invalidateQueries().catch(() => {});
  }, []);
  const leave = useCallback(() => {
    setCsrfToken(undefined);
    forgetCredentials();
    queries.clear();
    forgetReads();
    setState({ is: 'out', unreachable: false, notes: publishLogIn({ is: 'out' }) });
  }, []);
  const look = useCallback(async () => {
    try {
      const session = await ask();
      if (session !== undefined) {
        enter(session);
        return true;
      }
      if (logIn().is === 'in') publishLogIn({ is: 'expired' });
      setState((before) =>
        'session' in before ? { is: 'expired', session: before.session } : { is: 'out', unreachable: false },
      );
      return false;
    } catch (cause) {
      setState((before) => ('session' in before ? before : { is: 'out', unreachable: true }));
      throw cause;
    }
  }, [enter]);
  useEffect(() => {
    setLook(look);
    if (hasNoCookie()) setState({ is: 'out', unreachable: false });
    else look().catch(() => {});
    return hearTabs((note) => {
      if (note === 'logged-out') leave();
      else look().catch(() => {});
    });
  }, [look, leave]);
  useEffect(() => watchEnd(state, lastLook, () => look().catch(() => {})), [state, look]);
  const api = useMemo(
    (): SessionApi | undefined =>
      'session' in state
        ? {
            session: state.session,
            logOut: async () => {
              await call('LogOut').catch(() => {});
              tellTabs('logged-out');
              leave();
            },
          }
        : undefined,
    [state, leave],
  );
  const loggedIn = (session: Session) => {
    enter(session);
    tellTabs('logged-in');
  };
  if (state.is === 'asking') return <div class="boot" aria-busy="true" />;
  if (state.is === 'out')
    return <Login onLoggedIn={loggedIn} unreachable={state.unreachable} notes={state.notes ?? []} />;
  return (
    <SessionContext.Provider value={api}>
      <div class="under" inert={state.is === 'expired'}>
        {children}
      </div>
      {state.is === 'expired' && <Login onLoggedIn={loggedIn} over accessKey={state.session.accessKey} />}
    </SessionContext.Provider>
  );
}

/** A refusal may mean that the log-in has ended, and its time passes without any request. @returns stops watching */
function watchEnd(state: State, lastLook: { current: number }, look: () => void): () => void {
  if (state.is !== 'in') return () => {};
  whenRefused(() => {
    // A page of refusals is one reason to ask.
    if (Date.now() - lastLook.current < 5_000) return;
    lastLook.current = Date.now();
    look();
  });
  const { expiresAt } = state.session;
  const left = expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(expiresAt) - Date.now();
  const timer = Number.isFinite(left)
    ? setTimeout(look, Math.min(Math.max(left, 0) + 1_000, 2 ** 31 - 1))
    : 0;
  return () => {
    clearTimeout(timer);
    whenRefused(() => {});
  };
}
