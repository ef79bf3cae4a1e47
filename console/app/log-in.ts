/** The state of the log-in, for work that outlives the page that began it. */

export type LogIn =
  | { readonly is: 'in'; readonly accessKey: string }
  /** The log-in has ended; the form is over the open page. */
  | { readonly is: 'expired' }
  /** Before the first log-in, and after a log-out. */
  | { readonly is: 'out' };

type Listener = (now: LogIn) => string | undefined;

let current: LogIn = { is: 'out' };
const listeners = new Set<Listener>();

export const logIn = (): LogIn => current;

/** @returns what listeners have to say about the change: sentences for the log-in form */
export function publishLogIn(next: LogIn): readonly string[] {
  current = next;
  return [...listeners].flatMap((listener) => listener(next) ?? []);
}

/** @returns stops listening */
export function hearLogIn(listener: Listener): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

let look: () => Promise<boolean> = async () => true;

/** Set by the session. */
export const setLook = (next: typeof look): void => {
  look = next;
};

let looking: Promise<boolean> | undefined;

/**
 * Asks the gateway whether the log-in still holds; where it does not, the form appears. Many callers share one
 * question.
 * @throws Unreachable, Refused
 */
export function askLogIn(): Promise<boolean> {
  looking ??= look().finally(() => {
    looking = undefined;
  });
  return looking;
}

/** Resolves with the next log-in of the same caller. @throws the reason of the signal */
export function nextLogIn(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (current.is === 'in') {
      resolve();
      return;
    }
    const stop = hearLogIn((now) => {
      if (now.is !== 'in') return undefined;
      end();
      resolve();
      return undefined;
    });
    const abort = () => {
      end();
      reject(signal.reason);
    };
    const end = () => {
      stop();
      signal.removeEventListener('abort', abort);
    };
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
  });
}
