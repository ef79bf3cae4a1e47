/** The lifecycle of a bucket: what is due, a dry run, and a pass on demand. */
import { useState } from 'preact/hooks';
import { type Answer, call, isMissing } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Confirm } from '../../ui/confirm.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Button } from '../../ui/form.tsx';
import { type Column, countColumn, ShortTable } from '../../ui/short-table.tsx';
import { Failure, Reading } from '../../ui/states.tsx';
import { Count, Duration, formatCount, Time } from '../../ui/values.tsx';
import { everyMs, type PartProps, Section } from './section.tsx';
import { w } from './words.ts';

type Report = Answer<'GetLifecycle'>;
type Plan = Answer<'RunLifecycle'>;

interface RuleRow {
  readonly rule: string;
  readonly done: number;
  readonly backlog: number;
  readonly oldestDueDay?: string;
}

const columns: readonly Column<RuleRow>[] = [
  { id: 'rule', head: w.rule, cell: ({ rule }) => <bdi>{rule === '' ? w.restored : rule}</bdi> },
  countColumn('done', { head: w.done, value: ({ done }) => done }),
  countColumn('left', { head: w.left, value: ({ backlog }) => backlog }),
  { id: 'due', head: w.oldestDue, cell: ({ oldestDueDay = '–' }) => oldestDueDay, isMinor: true },
];

interface LifecycleProps extends PartProps {
  /** Whether the configuration was read: some callers may see the progress alone. */
  readonly isKnown: boolean;
}

export function Lifecycle({ bucket, configurations, may, isKnown }: LifecycleProps) {
  const rules = configurations.lifecycle?.Rule ?? [];
  const isSet = rules.length > 0;
  // Without rules the gateway answers 404, which the browser would log.
  const report = useAdmin(
    'GetLifecycle',
    { path: { name: bucket } },
    { everyMs, enabled: may('GetLifecycle') && (isSet || !isKnown) },
  );
  return (
    <Section
      title={w.lifecycle}
      bucket={bucket}
      family="lifecycle"
      set={isSet ? w.rules(rules.length) : isKnown ? undefined : report.data && w.states[report.data.state]}
      isLinked={isKnown}
      actions={isSet && may('RunLifecycle') && <Passes bucket={bucket} />}
    >
      {may('GetLifecycle') && (isSet || !isKnown) && !isMissing(report.error) && (
        <Reading query={report} rows={2}>
          {(data) => <State report={data} />}
        </Reading>
      )}
    </Section>
  );
}

function State({ report }: { readonly report: Report }) {
  const { state, backlog, isBacklogCut, oldestDueDay, perSecond, etaSeconds, rules = {} } = report;
  const { finishedAt, nextAt } = report;
  const rows = Object.entries(rules).map(([rule, numbers]) => ({ rule, ...numbers }));
  return (
    <>
      <div class="card-line stack">
        <Facts
          facts={[
            [w.state, <Chip key="state">{w.states[state]}</Chip>],
            [
              w.backlog,
              backlog !== undefined &&
                (isBacklogCut === true ? w.backlogCut(formatCount(backlog)) : <Count value={backlog} />),
            ],
            [w.oldestDue, oldestDueDay],
            [w.rate, perSecond !== undefined && t.ui.rate(formatCount(perSecond))],
            [w.eta, etaSeconds !== undefined && <Duration ms={etaSeconds * 1_000} />],
            [w.lastPass, finishedAt !== undefined && <Time at={finishedAt * 1_000} />],
            [w.nextPass, nextAt !== undefined && <Time at={nextAt * 1_000} />],
          ]}
        />
      </div>
      {rows.length > 0 && (
        <ShortTable label={w.rule} columns={columns} rows={rows} rowKey={({ rule }) => rule} />
      )}
    </>
  );
}

const planOf = (bucket: string): Promise<Plan> =>
  call('RunLifecycle', { path: { name: bucket }, query: { 'dry-run': true } });

type Open = { readonly for: 'look' | 'run'; readonly plan: Plan } | { readonly error: unknown };

/** Both begin with a dry run: one shows it, the other says how much a pass concerns before it is asked for. */
function Passes({ bucket }: { readonly bucket: string }) {
  const [open, setOpen] = useState<Open>();
  const run = useChange('RunLifecycle', ['GetLifecycle']);
  const begin = (why: 'look' | 'run') =>
    planOf(bucket)
      .then((plan) => setOpen({ for: why, plan }))
      .catch((error: unknown) => setOpen({ error }));
  const close = () => setOpen(undefined);
  return (
    <>
      <Button onClick={() => void begin('look')}>{w.dryRun}</Button>
      <Button onClick={() => void begin('run')}>
        {w.runNow} <span class="visually-hidden">{w.lifecycle}</span>
      </Button>
      {open !== undefined && 'error' in open && (
        <Dialog title={w.dryRunTitle} onClose={close}>
          <Failure error={open.error} />
        </Dialog>
      )}
      {open !== undefined && 'plan' in open && open.for === 'look' && (
        <Dialog title={w.dryRunTitle} onClose={close}>
          <Planned plan={open.plan} />
        </Dialog>
      )}
      {open !== undefined && 'plan' in open && open.for === 'run' && (
        <Confirm
          title={w.lifecycleAsk(bucket)}
          text={w.lifecycleText}
          impact={[[w.willDo, countOf(open.plan)]]}
          isReversible={false}
          action={w.runNow}
          onConfirm={() => run.mutateAsync({ path: { name: bucket } })}
          onClose={close}
        />
      )}
    </>
  );
}

const countOf = ({ actions, isComplete }: Plan): string =>
  isComplete ? formatCount(actions.length) : w.atLeast(formatCount(actions.length));

type Action = Plan['actions'][number];
/** As many rows as a dialog holds; the whole list is for programs. */
const shownMax = 100;

const actionColumns: readonly Column<Action>[] = [
  {
    id: 'action',
    head: w.action,
    cell: ({ action, storageClass }) => (
      <>
        {w.actions[action] ?? action} {storageClass}
      </>
    ),
  },
  {
    id: 'key',
    head: w.key,
    cell: ({ key }) => (
      <span class="code cut" dir="auto" title={key}>
        {key}
      </span>
    ),
  },
  { id: 'rule', head: w.rule, cell: ({ rule }) => <bdi>{rule}</bdi>, isMinor: true },
];

const Planned = ({ plan }: { readonly plan: Plan }) =>
  plan.actions.length === 0 ? (
    <p>{plan.isComplete ? w.nothingToDo : w.states.indexing}</p>
  ) : (
    <div class="stack">
      <p>
        {w.willDo}: <strong class="number">{countOf(plan)}</strong>
        {plan.actions.length > shownMax && <span class="quiet"> {w.dryRunCut(shownMax)}</span>}
      </p>
      <ShortTable
        label={w.dryRunTitle}
        columns={actionColumns}
        rows={plan.actions.slice(0, shownMax)}
        rowKey={({ action, key, versionId = '', uploadId = '' }) =>
          `${action} ${key} ${versionId}${uploadId}`
        }
      />
    </div>
  );
