/** The targets that the events of a bucket go to, each with its state, its backlog and a test. */
import type { Answer } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin } from '../../app/queries.ts';
import { Chip } from '../../ui/chip.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Failure } from '../../ui/states.tsx';
import { Count } from '../../ui/values.tsx';
import { TargetErrors, TargetState, TestTarget } from '../events/events.tsx';
import { everyMs, type NotificationRule, type PartProps, Section } from './section.tsx';
import { w } from './words.ts';

interface Row {
  readonly id: string;
  readonly rule: NotificationRule;
  readonly target: string;
  /** Undefined where the targets may not be read; null where the settings do not have it. */
  readonly state: Answer<'GetNotifyTargets'>['targets'][number] | undefined | null;
  readonly mayTest: boolean;
}

const filterOf = ({ Filter }: NotificationRule): string => {
  const named = new Map(
    (Filter?.S3Key?.FilterRule ?? []).map(({ Name, Value }) => [Name.toLowerCase(), Value]),
  );
  const { prefix = '', suffix = '', ...others } = Object.fromEntries(named);
  if (Object.values({ prefix, suffix, ...others }).every((value) => value === '')) return w.allKeys;
  // A name that this page does not know is shown as the rule writes it.
  return [`${prefix}*${suffix}`, ...Object.entries(others).map((each) => each.join('='))].join(' ');
};

const ruleColumns: readonly Column<Row>[] = [
  {
    id: 'target',
    head: w.target,
    cell: ({ target }) => <bdi class="code cut elastic unabridged">{target}</bdi>,
  },
  {
    id: 'events',
    head: w.events,
    cell: ({ rule }) => (
      <span class="cut" title={rule.Event?.join('\n')}>
        {rule.Event?.map((event) => event.replace(/^s3:/, '')).join(', ')}
      </span>
    ),
    isMinor: true,
  },
  {
    id: 'filter',
    head: w.filter,
    cell: ({ rule }) => <bdi class="code cut">{filterOf(rule)}</bdi>,
    isWideOnly: true,
  },
];

/** For those who may read the targets, which other accounts use too. */
const stateColumns: readonly Column<Row>[] = [
  {
    id: 'state',
    head: w.state,
    cell: ({ state }) =>
      state === undefined ? (
        '–'
      ) : state === null ? (
        <Chip tone="bad">{w.removed}</Chip>
      ) : (
        <TargetState {...state} />
      ),
  },
  {
    id: 'queued',
    head: w.queued,
    cell: ({ state }) => <Amount value={state?.queued} />,
    align: 'end',
    isMinor: true,
  },
  { id: 'dead', head: w.dead, cell: ({ state }) => <Amount value={state?.deadLetters} />, align: 'end' },
  {
    id: 'test',
    head: () => <span class="visually-hidden">Test</span>,
    cell: ({ target, state, mayTest }) => mayTest && state !== null && <TestTarget target={target} />,
    align: 'end',
  },
];

const Amount = ({ value }: { readonly value: number | undefined }) =>
  value === undefined ? <>–</> : <Count value={value} />;

export function Notifications({ bucket, configurations, may }: PartProps) {
  const lists = Object.values(configurations.notification ?? {}).filter(Array.isArray);
  const rules = lists.flat() as readonly NotificationRule[];
  const isSet = rules.length > 0;
  const targets = useAdmin('GetNotifyTargets', {}, { everyMs, enabled: isSet && may('GetNotifyTargets') });
  const rows = rules.map((rule, index): Row => {
    const target = (rule.Topic ?? rule.Queue ?? rule.CloudFunction ?? '').split(':').at(-1) ?? '';
    const known = targets.data?.targets;
    return {
      id: rule.Id ?? String(index),
      rule,
      target,
      state: known && (known.find(({ id, type }) => id === target && type !== 'removed') ?? null),
      mayTest: may('TestNotifyTarget'),
    };
  });
  // Several rules may name one target.
  const failing = [...new Set(rows.flatMap(({ state }) => state ?? []))].map((each) => ({
    ...each,
    name: each.id,
  }));
  return (
    <Section
      title={w.notifications}
      bucket={bucket}
      family="notification"
      set={isSet ? w.rules(rules.length) : undefined}
      actions={
        isSet &&
        may('GetNotifyTargets') && (
          <PageLink page="events" class="button">
            {w.more} <span class="visually-hidden">{w.notifications}</span>
          </PageLink>
        )
      }
    >
      {isSet && (
        <>
          <ShortTable
            label={w.notifications}
            columns={may('GetNotifyTargets') ? [...ruleColumns, ...stateColumns] : ruleColumns}
            rows={rows}
            rowKey={({ id }) => id}
          />
          <TargetErrors targets={failing} />
        </>
      )}
      {targets.error && <Failure error={targets.error} />}
    </Section>
  );
}
