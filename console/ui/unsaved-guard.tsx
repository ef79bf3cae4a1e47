/** Asks before a navigation that would lose something unsaved; before a reload the browser asks. */
import { useBlocker } from '@tanstack/react-router';
import { words } from '../text/text.ts';
import { Dialog } from './dialog.tsx';
import { Button } from './form.tsx';
import { holdsSecret, isBlocked } from './unsaved.ts';

const w = words({
  en: {
    form: 'Discard your changes?',
    formText: 'The form has changes that are not saved.',
    discard: 'Discard',
    secret: 'Leave without the secret?',
    secretText: 'The secret is shown this once. If you have not stored it, nothing can read it again.',
    leave: 'Leave',
    stay: 'Stay',
  },
  de: {
    form: 'Änderungen verwerfen?',
    formText: 'Das Formular hat Änderungen, die nicht gespeichert sind.',
    discard: 'Verwerfen',
    secret: 'Ohne das Geheimnis verlassen?',
    secretText:
      'Das Geheimnis wird nur dieses Mal gezeigt. Wenn Sie es nicht aufbewahrt haben, kann nichts es wieder lesen.',
    leave: 'Verlassen',
    stay: 'Bleiben',
  },
});

export function UnsavedGuard() {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: isBlocked,
    enableBeforeUnload: isBlocked,
    withResolver: true,
  });
  if (status !== 'blocked') return null;
  const isSecret = holdsSecret();
  return (
    <Dialog title={isSecret ? w.secret : w.form} onClose={reset}>
      <p>{isSecret ? w.secretText : w.formText}</p>
      <div class="actions">
        <Button kind="primary" onClick={reset}>
          {w.stay}
        </Button>
        <Button kind={isSecret ? 'danger' : 'plain'} onClick={proceed}>
          {isSecret ? w.leave : w.discard}
        </Button>
      </div>
    </Dialog>
  );
}
