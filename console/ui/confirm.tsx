/** Confirmation of a danger: what will happen to how much, whether it can be undone, and the typed name for what cannot. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Dialog } from './dialog.tsx';
import { Button, type ButtonProps, Form, TextField } from './form.tsx';
import { Icon } from './icons.tsx';

interface ConfirmProps {
  readonly title: string;
  readonly text: ComponentChildren;
  /** What it concerns, in numbers: `['Objects', <Count … />]`. */
  readonly impact?: readonly (readonly [label: string, value: ComponentChildren])[];
  /** For what cannot be undone: the user types this name. */
  readonly typed?: string;
  readonly isReversible?: boolean;
  /** Such as while the numbers are being counted. */
  readonly isDisabled?: boolean;
  readonly action: string;
  readonly onConfirm: () => Promise<unknown>;
  readonly onClose: () => void;
}

export function Confirm({
  title,
  text,
  impact = [],
  typed,
  isReversible = typed === undefined,
  isDisabled = false,
  action,
  onConfirm,
  onClose,
}: ConfirmProps) {
  const [name, setName] = useState('');
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        submit={action}
        kind={isReversible ? 'primary' : 'danger'}
        disabled={isDisabled || (typed !== undefined && name !== typed)}
        onSubmit={async () => {
          await onConfirm();
          onClose();
        }}
        onCancel={onClose}
      >
        {() => (
          <>
            <p>{text}</p>
            {impact.length > 0 && (
              <dl class="facts">
                {impact.map(([label, value]) => (
                  <div key={label}>
                    <dt>{label}</dt>
                    <dd>{value}</dd>
                  </div>
                ))}
              </dl>
            )}
            <p class={isReversible ? 'quiet' : 'fault'}>
              <Icon name={isReversible ? 'info' : 'warning'} />{' '}
              {isReversible ? t.ui.reversible : t.ui.irreversible}
            </p>
            {typed !== undefined && (
              <TextField label={t.ui.typeName(typed)} value={name} onChange={setName} code />
            )}
          </>
        )}
      </Form>
    </Dialog>
  );
}

interface ConfirmButtonProps extends Omit<ConfirmProps, 'onClose'>, Pick<ButtonProps, 'icon' | 'kind'> {}

/** A button whose action is confirmed first. */
export function ConfirmButton({ icon, kind = 'plain', ...confirm }: ConfirmButtonProps) {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <Button {...(icon === undefined ? {} : { icon })} kind={kind} onClick={() => setAsking(true)}>
        {confirm.action}
      </Button>
      {isAsking && <Confirm {...confirm} onClose={() => setAsking(false)} />}
    </>
  );
}
