/** The buttons of a worker: run now, pause with a reason, resume. */
import { useState } from 'preact/hooks';
import type { Allowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useChange } from '../../app/queries.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { Button, Form, TextField } from '../../ui/form.tsx';
import { toast, toastFailure } from '../../ui/toast.tsx';
import { w } from './words.ts';

interface ControlsProps {
  readonly worker: Answer<'ListWorkers'>['workers'][number];
  readonly allowed: Allowed;
}

export function Controls({ worker: { worker: name, paused }, allowed }: ControlsProps) {
  const [isAsking, setAsking] = useState(false);
  const run = useChange('RunWorker', ['ListWorkers', 'ListTasks']);
  const resume = useChange('ResumeWorker', ['ListWorkers', 'ListTasks']);
  const ask = { path: { name } };
  return (
    <p class="actions">
      {paused === undefined && allowed('RunWorker') === true && (
        <Button
          busy={run.isPending}
          onClick={() =>
            run.mutate(ask, {
              onSuccess: ({ isRunning }) => toast(isRunning ? w.asked(name) : w.runsNowhere(name)),
              onError: toastFailure,
            })
          }
        >
          {w.run}
        </Button>
      )}
      {paused === undefined && allowed('PauseWorker') === true && (
        <Button onClick={() => setAsking(true)}>{w.pause}</Button>
      )}
      {paused !== undefined && allowed('ResumeWorker') === true && (
        <Button
          kind="primary"
          busy={resume.isPending}
          onClick={() => resume.mutate(ask, { onError: toastFailure })}
        >
          {w.resume}
        </Button>
      )}
      {isAsking && <Pause name={name} onClose={() => setAsking(false)} />}
    </p>
  );
}

function Pause({ name, onClose }: { readonly name: string; readonly onClose: () => void }) {
  const [reason, setReason] = useState('');
  const pause = useChange('PauseWorker', ['ListWorkers', 'ListTasks']);
  return (
    <Dialog title={w.pauseAsk(name)} onClose={onClose}>
      <Form
        submit={w.pause}
        onSubmit={async () => {
          await pause.mutateAsync({ path: { name }, body: reason === '' ? {} : { reason } });
          onClose();
        }}
        onCancel={onClose}
      >
        {() => (
          <>
            <p>{w.pauseText}</p>
            <TextField label={w.reason} value={reason} onChange={setReason} />
          </>
        )}
      </Form>
    </Dialog>
  );
}
