/** The work on many objects that runs or has ended: progress, what was not done and why, and undo. */

import { t } from '../../text/text.ts';
import { Button } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Progress } from '../../ui/progress.tsx';
import { Failure } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { clearJob, type Job, startUndo, stopJob, useJobs } from './jobs.ts';
import { visible } from './listing.ts';
import { wordsOfJobs as w } from './words.ts';

export function JobList({ bucket }: { readonly bucket: string }) {
  const jobs = useJobs().filter((job) => job.bucket === bucket);
  if (jobs.length === 0) return null;
  return (
    <Card title={w.jobs}>
      {jobs.map((job) => (
        <JobLine key={job.id} job={job} />
      ))}
    </Card>
  );
}

function JobLine({ job }: { readonly job: Job }) {
  const { kind, state, total, failures, markers, markersLeftOut } = job;
  const isRunning = state === 'running';
  const inBytes = (kind === 'copy' || kind === 'move' || kind === 'zip') && total.bytes > 0;
  const done = inBytes ? job.bytes : job.objects;
  const seconds = (Date.now() - job.startedAt) / 1_000;
  const succeeded = job.objects - failures;
  const isGood = state === 'done' && failures === 0;
  return (
    <div class="card-line stack job">
      <div class="job-line">
        {isRunning ? (
          <Progress
            label={w.running[kind](total.objects)}
            done={done}
            total={inBytes ? total.bytes : total.objects}
            unit={inBytes ? 'bytes' : 'count'}
            perSecond={seconds > 1 && done > 0 ? done / seconds : undefined}
          />
        ) : (
          <p role="status" class={isGood ? 'tone-good' : 'tone-warn'}>
            <Icon name={isGood ? 'check' : 'warning'} /> {w.ended[kind](succeeded)}
            {state === 'stopped' && ` ${w.stopped(total.objects - job.objects)}`}
          </p>
        )}
        <div class="actions">
          {isRunning && <Button onClick={() => stopJob(job)}>{w.stop}</Button>}
          {!isRunning && markers.length > 0 && markersLeftOut === 0 && (
            <Button
              icon="refresh"
              onClick={() => {
                startUndo(job);
                clearJob(job);
              }}
            >
              {w.undo(markers.length)}
            </Button>
          )}
          {!isRunning && (
            <Button
              icon="close"
              label={`${t.ui.close}: ${w.ended[kind](succeeded)}`}
              onClick={() => clearJob(job)}
            />
          )}
        </div>
      </div>
      {state === 'failed' && <Failure error={job.error} />}
      {failures > 0 && <NotDoneList job={job} />}
      {markersLeftOut > 0 && <p class="quiet">{w.markersLeftOut}</p>}
    </div>
  );
}

const NotDoneList = ({ job: { failed, failures } }: { readonly job: Job }) => (
  <details open={failures <= 10}>
    <summary class="fault">{w.notDone(failures)}</summary>
    <ul class="plain job-failures">
      {failed.map(({ key, code, reason }) => (
        <li key={key}>
          <bdi class="code">{visible(key)}</bdi>: <span class="code">{code}</span>{' '}
          <bdi>{reason === '=' ? w.same : reason}</bdi>
        </li>
      ))}
    </ul>
    {failures > failed.length && <p class="quiet">{w.furtherFailures(failures - failed.length)}</p>}
  </details>
);
