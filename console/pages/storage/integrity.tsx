/** Whether stored bytes and metadata agree: the scrub and fsck, what they found, and how to start them; the last backup. */
import type { Allowed } from '../../app/allowed.ts';
import { type AdminOperationName, isMissing } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { Chip } from '../../ui/chip.tsx';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Progress } from '../../ui/progress.tsx';
import { Failure, Skeleton } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { formatBytes, Time } from '../../ui/values.tsx';
import { TaskProgress } from '../workers/task-progress.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

interface IntegrityProps {
  readonly allowed: Allowed;
  /** `sluice backup` copies what this gateway stores; other backends have tools of their own. */
  readonly hasBackups: boolean;
}

/** A pass that has never run is a 404, which is no failure here. */
export function Integrity({ allowed, hasBackups }: IntegrityProps) {
  const scrub = useAdmin('GetScrub', {}, { everyMs, enabled: allowed('GetScrub') === true });
  const fsck = useAdmin('GetFsck', {}, { everyMs, enabled: allowed('GetFsck') === true });
  const showsBackup = hasBackups && allowed('ListTasks') === true;
  if (allowed('GetScrub') !== true && allowed('GetFsck') !== true && !showsBackup) return null;
  return (
    <Card title={w.integrity}>
      {allowed('GetScrub') === true && (
        <Pass name={w.scrub} query={scrub} start={allowed('StartScrub') === true ? <StartScrub /> : null}>
          {scrub.data !== undefined && (
            <>
              <Chip tone={scrub.data.damaged === 0 ? 'good' : 'bad'}>
                {scrub.data.damaged === 0 ? w.intact : w.damaged(scrub.data.damaged)}
              </Chip>
              <span class="quiet">
                {w.read} {formatBytes(scrub.data.bytes)}
              </span>
              <Ended at={scrub.data.finishedAt} />
            </>
          )}
        </Pass>
      )}
      {allowed('GetFsck') === true && (
        <Pass name={w.fsck} query={fsck} start={allowed('StartFsck') === true ? <StartFsck /> : null}>
          {fsck.data !== undefined && (
            <>
              {fsck.data.state === 'running' ? (
                <Progress label={w.running} done={fsck.data.slotsSeen} total={fsck.data.slots} />
              ) : (
                <Chip tone={fsck.data.found === 0 ? 'good' : 'bad'}>
                  {fsck.data.found === 0 ? w.noFindings : w.findings(fsck.data.found)}
                </Chip>
              )}
              <Ended at={fsck.data.finishedAt} />
            </>
          )}
        </Pass>
      )}
      {showsBackup && <Backup />}
    </Card>
  );
}

function Backup() {
  const backups = useAdmin('ListTasks', { query: { kind: 'backup', limit: 1 } }, { everyMs });
  const last = backups.data?.tasks[0];
  return (
    <Pass name={w.backup} query={backups} start={null}>
      {last === undefined ? (
        <span class="quiet">{w.noBackup}</span>
      ) : last.finishedAt === undefined ? (
        <TaskProgress label={w.running} task={last}>
          {last.why !== undefined && <p class="quiet">{last.why}</p>}
        </TaskProgress>
      ) : (
        <>
          <Chip tone={last.state === 'done' ? 'good' : 'bad'}>
            {last.state === 'done' ? w.backupDone : (last.why ?? w.backupFailed)}
          </Chip>
          <span class="quiet">{formatBytes(last.done.bytes ?? 0)}</span>
          <Ended at={last.finishedAt} />
        </>
      )}
    </Pass>
  );
}

const Ended = ({ at }: { readonly at: number | undefined }) =>
  at === undefined ? null : (
    <span class="quiet">
      {w.finished} <Time at={at * 1000} />
    </span>
  );

interface PassProps {
  readonly name: string;
  readonly query: { readonly data: unknown; readonly error: unknown; refetch(): unknown };
  readonly start: preact.ComponentChildren;
  readonly children: preact.ComponentChildren;
}

const Pass = ({ name, query, start, children }: PassProps) => (
  <div class="line">
    <strong class="line-name">{name}</strong>
    <div class="line-body">
      {query.data !== undefined ? (
        children
      ) : isMissing(query.error) ? (
        <span class="quiet">{w.neverRan}</span>
      ) : query.error ? (
        <Failure error={query.error} onRetry={() => query.refetch()} />
      ) : (
        <Skeleton rows={1} height={24} />
      )}
    </div>
    {start}
  </div>
);

interface StartProps {
  readonly label: string;
  readonly ask: string;
  readonly text: string;
  readonly operation: 'StartScrub' | 'StartFsck';
  readonly then: AdminOperationName;
}

function Start({ label, ask, text, operation, then }: StartProps) {
  const change = useChange(operation, [then]);
  return <ConfirmButton title={ask} text={text} action={label} onConfirm={() => change.mutateAsync({})} />;
}

const StartScrub = () => (
  <Start label={w.runScrub} ask={w.scrubAsk} text={w.scrubText} operation="StartScrub" then="GetScrub" />
);
const StartFsck = () => (
  <Start label={w.runFsck} ask={w.fsckAsk} text={w.fsckText} operation="StartFsck" then="GetFsck" />
);
