/** Results of background work, with a link to where they are. What the page itself shows needs no toast. */
import type { ComponentChildren } from 'preact';
import { Refused } from '../app/client.ts';
import { t } from '../text/text.ts';
import { Changes, useChanges } from './changes.ts';
import { Button } from './form.tsx';
import { Icon } from './icons.tsx';
import { RequestLinks } from './states.tsx';

interface Toast {
  readonly id: number;
  readonly tone: 'good' | 'bad';
  readonly text: ComponentChildren;
}

const shownMax = 4;
const shownMs = 12_000;

let toasts: readonly Toast[] = [];
let nextId = 0;
const changes = new Changes();

function change(next: readonly Toast[]): void {
  toasts = next.slice(-shownMax);
  changes.publish();
}

export function toast(text: ComponentChildren, tone: Toast['tone'] = 'good'): void {
  nextId += 1;
  const id = nextId;
  change([...toasts, { id, tone, text }]);
  setTimeout(() => change(toasts.filter((each) => each.id !== id)), shownMs);
}

/** Shows that background work failed; a refusal has links to its reason. */
export function toastFailure(error: Error): void {
  if (!(error instanceof Refused) || error.requestId === '') {
    toast(error.message, 'bad');
    return;
  }
  const { message, requestId, status } = error;
  toast(
    <>
      <span dir="auto">{message}</span>{' '}
      <span class="toast-links">
        <RequestLinks requestId={requestId} status={status} />
      </span>
    </>,
    'bad',
  );
}

export function Toasts() {
  useChanges(changes);
  return (
    <div class="toasts" role="status">
      {toasts.map(({ id, tone, text }) => (
        <div key={id} class={`toast tone-${tone}`}>
          <Icon name={tone === 'good' ? 'check' : 'error'} />
          <span>{text}</span>
          <Button
            icon="close"
            label={t.ui.close}
            onClick={() => change(toasts.filter((each) => each.id !== id))}
          />
        </div>
      ))}
    </div>
  );
}
