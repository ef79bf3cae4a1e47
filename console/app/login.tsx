/** The log-in form. Over an open page it lets the user go on where the log-in ended. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Button, Field, inputType } from '../ui/form.tsx';
import { Icon } from '../ui/icons.tsx';
import { call, Refused } from './client.ts';
import type { Session } from './session.tsx';

interface LoginProps {
  readonly onLoggedIn: (session: Session) => void;
  readonly unreachable?: boolean;
  /** Shown over the page whose log-in has ended. */
  readonly over?: boolean;
  readonly accessKey?: string;
  /** What the end of the log-in has stopped. */
  readonly notes?: readonly string[];
}

export function Login({
  onLoggedIn,
  unreachable = false,
  over = false,
  accessKey = '',
  notes = [],
}: LoginProps) {
  const [key, setKey] = useState(accessKey);
  const [secret, setSecret] = useState('');
  const [isShown, setShown] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState(unreachable ? t.login.unreachable : '');
  /** The first field that is empty. */
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = `${t.login.title} · ${t.product}`;
    first.current?.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFault('');
    try {
      onLoggedIn(await call('LogIn', { body: { accessKey: key.trim(), secretKey: secret.trim() } }));
    } catch (cause) {
      setFault(faultOf(cause));
      setBusy(false);
    }
  };
  return (
    <div class={over ? 'login login-over' : 'login'}>
      <main class="login-card" aria-labelledby="login-title">
        <h1 id="login-title" class="login-title">
          <Mark />
          {t.login.title}
        </h1>
        {notes.map((note) => (
          <p key={note} role="status">
            <Icon name="info" /> {note}
          </p>
        ))}
        <p class="quiet">{over ? t.login.expired : t.login.lead}</p>
        <form onSubmit={submit} class="stack">
          <Field label={t.login.accessKey}>
            {(field) => (
              <input
                {...field}
                ref={accessKey === '' ? first : undefined}
                class="input code"
                name="username"
                autocomplete="username"
                autocapitalize="none"
                spellcheck={false}
                required
                value={key}
                onInput={(event) => setKey(event.currentTarget.value)}
              />
            )}
          </Field>
          <Field label={t.login.secretKey}>
            {(field) => (
              <span class="input-row">
                <input
                  {...field}
                  ref={accessKey === '' ? undefined : first}
                  class="input code"
                  name="password"
                  {...inputType(isShown ? 'text' : 'password')}
                  autocomplete="current-password"
                  spellcheck={false}
                  required
                  value={secret}
                  onInput={(event) => setSecret(event.currentTarget.value)}
                />
                <Button type="button" onClick={() => setShown(!isShown)}>
                  {isShown ? t.login.hide : t.login.show}
                </Button>
              </span>
            )}
          </Field>
          {fault !== '' && (
            <p class="fault" role="alert">
              <Icon name="error" /> {fault}
            </p>
          )}
          <Button type="submit" kind="primary" busy={isBusy}>
            {t.login.submit}
          </Button>
        </form>
      </main>
    </div>
  );
}

function faultOf(cause: unknown): string {
  if (!(cause instanceof Refused)) return t.login.unreachable;
  if (cause.status === 429 || cause.code === 'TooManyRequests') return `${t.login.tooMany} ${cause.message}`;
  if (cause.code === 'AccessDenied') return t.login.wrong;
  return cause.status >= 500 ? t.login.unreachable : cause.message;
}

export const Mark = () => (
  <svg class="mark" width="24" height="24" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <rect width="32" height="32" rx="7" />
    <path d="M8 8v16M24 8v16M8 13h16M8 19h16" />
  </svg>
);
