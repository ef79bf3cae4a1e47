/** Events: the targets, what waits for each, and the events that could not be delivered. */
import { useState } from 'preact/hooks';
import { type Allowed, useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useAdmin, useAdminPages, useChange } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { decodeName } from '../../storage/xml.ts';
import { plural } from '../../text/plural.ts';
import { formatNumber, t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Dialog, Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Button } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { type Column, countColumn } from '../../ui/short-table.tsx';
import { Empty, Failure, Reading, Skeleton } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Count, formatCount, formatDuration, Time } from '../../ui/values.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

type Target = Answer<'GetNotifyTargets'>['targets'][number];
type Letter = Answer<'ListDeadLetters'>['rows'][number];

export const TargetState = ({ state, refused }: Pick<Target, 'state' | 'refused'>) =>
  state === 'failing' ? (
    <Chip tone="bad">{w.failing}</Chip>
  ) : refused.objects > 0 ? (
    <Chip tone="warn" title={refused.reasons.map(({ error }) => error).join('\n')}>
      {w.refuses(refused.objects)}
    </Chip>
  ) : (
    <Chip tone="good">{w.takes}</Chip>
  );

interface FailingProps {
  readonly targets: readonly (Pick<Target, 'state' | 'failures' | 'lastError' | 'refused'> & {
    readonly name: string;
  })[];
}

/** Why targets fail, or refuse objects: below their table. */
export function TargetErrors({ targets }: FailingProps) {
  const lines = targets.flatMap(({ name, state, failures = 0, lastError, refused }) => [
    ...(state === 'failing' && lastError !== undefined
      ? [
          <li key={name}>
            <Icon name="error" /> <bdi class="code">{name}</bdi>: <bdi>{lastError.message}</bdi>{' '}
            <span class="quiet">
              · {w.tries(failures)} <Time at={lastError.at} />
            </span>
          </li>,
        ]
      : []),
    ...refused.reasons
      .filter(({ error }) => error !== lastError?.message)
      .map(({ error, objects }) => (
        <li key={`${name} ${error}`}>
          <Icon name="warning" /> <bdi class="code">{name}</bdi>: <bdi>{error}</bdi>{' '}
          <span class="quiet">· {w.refuses(objects)}</span>
        </li>
      )),
  ]);
  return lines.length === 0 ? null : <ul class="warnings target-errors">{lines}</ul>;
}

const columns: readonly Column<Target>[] = [
  {
    id: 'id',
    head: w.target,
    cell: ({ id }) => <span class="code cut unabridged">{id}</span>,
    value: ({ id }) => id,
  },
  { id: 'type', head: w.type, cell: ({ type }) => type, value: ({ type }) => type, isWideOnly: true },
  { id: 'state', head: w.state, cell: (target) => <TargetState {...target} />, value: ({ state }) => state },
  countColumn('queued', { head: w.waiting, value: ({ queued }) => queued, isMinor: true }),
  {
    id: 'oldest',
    head: w.oldest,
    cell: ({ queued, oldestSeconds }) => (queued === 0 ? '–' : formatDuration(oldestSeconds * 1000)),
    value: ({ oldestSeconds }) => oldestSeconds,
    align: 'end',
    isMinor: true,
  },
  {
    id: 'rate',
    head: w.rate,
    cell: ({ perSecond }) => formatNumber(perSecond, { maximumFractionDigits: 1 }),
    value: ({ perSecond }) => perSecond,
    align: 'end',
    isWideOnly: true,
  },
  countColumn('dead', { head: w.dead, value: ({ deadLetters }) => deadLetters }),
];

/** A target that the settings no longer have cannot be tested. */
const testColumn: Column<Target> = {
  id: 'test',
  head: () => <span class="visually-hidden">{w.test}</span>,
  cell: ({ id, type }) => type !== 'removed' && <TestTarget target={id} />,
  align: 'end',
};

/** Sends one test event to a target, and says what came back. */
export function TestTarget({ target }: { readonly target: string }) {
  const [isOpen, setOpen] = useState(false);
  const test = useChange('TestNotifyTarget');
  const ask = () => {
    setOpen(true);
    test.mutate({ path: { target } });
  };
  const { data, error } = test;
  return (
    <>
      <Button kind="link" label={w.testOf(target)} onClick={ask}>
        {w.test}
      </Button>
      {isOpen && (
        <Dialog title={w.testOf(target)} onClose={() => setOpen(false)}>
          {error ? <Failure error={error} onRetry={ask} /> : data === undefined && <Skeleton rows={2} />}
          {data !== undefined && !error && <Tested answer={data} onAgain={ask} />}
        </Dialog>
      )}
    </>
  );
}

interface TestedProps {
  readonly answer: Answer<'TestNotifyTarget'>;
  readonly onAgain: () => void;
}

/** The dialog stands in a cell at the end of a row, whose text does not wrap. */
const unlikeACell = { textAlign: 'start', whiteSpace: 'normal' } as const;

const Tested = ({ answer: { delivered, failure, milliseconds, message }, onAgain }: TestedProps) => (
  <div class="stack" style={unlikeACell}>
    <p role="status" dir="auto">
      <Chip tone={delivered ? 'good' : 'bad'}>{delivered ? w.took : w.tookNot}</Chip>{' '}
      {failure === undefined ? w.tookHint : failure.error}
    </p>
    <Facts facts={[[w.duration, formatDuration(milliseconds)]]} />
    <pre class="code" dir="auto" style={{ overflowX: 'auto' }}>
      {JSON.stringify(message, null, 2)}
    </pre>
    <div class="actions">
      <Button onClick={onAgain}>{w.again}</Button>
    </div>
  </div>
);

/** What a dead letter tells: a record of the public service, whose key is encoded as in a form. */
function recordOf({ message }: Letter): { readonly event: string; readonly key: string } {
  // The cast: the API passes messages on as they are stored. A test event has no record.
  const { Event = '', Records: [record] = [] } = message as {
    readonly Event?: string;
    readonly Records?: readonly { readonly eventName: string; readonly s3: { object: { key: string } } }[];
  };
  if (record === undefined) return { event: Event, key: '' };
  return {
    event: record.eventName,
    key: decodeName(record.s3.object.key),
  };
}

const placeOf = (letter: Letter): string => {
  const { bucket = '–' } = letter;
  const { key } = recordOf(letter);
  return key === '' ? bucket : `${bucket}/${key}`;
};

const letterColumns: readonly Column<Letter>[] = [
  {
    id: 'key',
    head: w.key,
    cell: (letter) => (
      <bdi class="code cut unabridged" title={placeOf(letter)}>
        {placeOf(letter)}
      </bdi>
    ),
  },
  {
    id: 'event',
    head: w.event,
    cell: (letter) => <span class="code two-lines">{recordOf(letter).event}</span>,
  },
  {
    id: 'target',
    head: w.target,
    cell: ({ target }) => <span class="code two-lines">{target}</span>,
    isWideOnly: true,
  },
  {
    id: 'error',
    head: w.error,
    cell: ({ error }) => (
      <span class="cut elastic" dir="auto" title={error}>
        {error}
      </span>
    ),
    isMinor: true,
  },
  {
    id: 'attempts',
    head: w.attempts,
    cell: ({ attempts }) => <Count value={attempts} />,
    align: 'end',
    isWideOnly: true,
  },
  { id: 'time', head: t.ui.time, cell: ({ time }) => <Time at={time} />, align: 'end', isMinor: true },
];

export default function EventsPage() {
  const allowed = useAllowed([
    'GetNotifyTargets',
    'ListDeadLetters',
    'RedriveNotifications',
    'DiscardNotifications',
    'TestNotifyTarget',
  ]);
  const targets = useAdmin(
    'GetNotifyTargets',
    {},
    { everyMs, enabled: allowed('GetNotifyTargets') === true },
  );
  const letters = useAdminPages(
    'ListDeadLetters',
    { query: { limit: 100 } },
    { rowsOf: ({ rows }) => rows, everyMs, enabled: allowed('ListDeadLetters') === true },
  );
  const [search, setSearch] = useSearchState();
  const tested = allowed('TestNotifyTarget') === true ? [...columns, testColumn] : columns;
  const open = letters.rows?.find(({ id }) => id === search['letter']);
  if (allowed('GetNotifyTargets') === false)
    return <Forbidden title={t.pages.events} operation="GetNotifyTargets" />;
  return (
    <>
      <PageHead title={t.pages.events} answer={targets.data && <Answered targets={targets.data.targets} />} />
      <Card title={w.targets}>
        <Reading query={targets}>
          {(found) => (
            <>
              <DataTable
                label={w.targets}
                name="targets-"
                columns={tested}
                rows={found.targets}
                rowKey={({ id }) => id}
                empty={<Empty text={w.noTargets} docs={w.noTargetsHint} />}
              />
              <TargetErrors targets={found.targets.map((each) => ({ ...each, name: each.id }))} />
            </>
          )}
        </Reading>
      </Card>
      {allowed('ListDeadLetters') === true && (
        <Card
          title={w.letters}
          actions={
            letters.rows !== undefined &&
            letters.rows.length > 0 && (
              <Letters
                allowed={allowed}
                rows={letters.rows}
                count={
                  letters.more.has ? targets.data && countLetters(targets.data.targets) : letters.rows.length
                }
              />
            )
          }
        >
          <DataTable
            label={w.letters}
            name="letters-"
            columns={letterColumns}
            rows={letters.rows}
            error={letters.error}
            onRetry={() => letters.refetch()}
            rowKey={({ id }) => id}
            filterText={(letter) => {
              const { target, bucket = '', error, requestId } = letter;
              const { event, key } = recordOf(letter);
              return `${event} ${bucket}/${key} ${target} ${error} ${requestId}`;
            }}
            linkTo={({ id }) => ({ search: { letter: id } })}
            openKey={open?.id}
            more={letters.more}
            empty={<Empty icon="check" text={w.noLetters} />}
          />
        </Card>
      )}
      {open !== undefined && (
        <Panel title={w.letter} onClose={() => setSearch({ letter: undefined })}>
          <OneLetter letter={open} allowed={allowed} />
        </Panel>
      )}
    </>
  );
}

const countLetters = (targets: readonly Target[]): number =>
  targets.reduce((sum, { deadLetters }) => sum + deadLetters, 0);

function Answered({ targets }: { readonly targets: readonly Target[] }) {
  const failing = targets.filter(({ state }) => state === 'failing').length;
  const waiting = targets.reduce((sum, { queued }) => sum + queued, 0);
  const dead = countLetters(targets);
  if (targets.length === 0) return <>{w.noTargets}</>;
  return (
    <>
      {failing > 0 ? <span class="tone-bad">{w.someFail(failing)} </span> : `${w.allTake} `}
      {w.wait(waiting, formatCount(waiting))}
      {dead > 0 && <span class="tone-bad"> {w.undelivered(dead, formatCount(dead))}</span>}
    </>
  );
}

interface LettersProps {
  readonly allowed: Allowed;
  /** The newest first. */
  readonly rows: readonly Letter[];
  /** Of all letters; undefined while it is not known. */
  readonly count: number | undefined;
}

function Letters({ allowed, rows, count }: LettersProps) {
  // Not the events that are given up after the page has read the list: the question does not count them.
  const newest = Math.max(...rows.map(({ time }) => Date.parse(time)));
  const filter = { until: new Date(newest + 1).toISOString() };
  return (
    <div class="actions">
      {allowed('RedriveNotifications') === true && (
        <Redrive label={w.redriveAll} title={w.redriveAsk(count)} filter={filter} />
      )}
      {allowed('DiscardNotifications') === true && (
        <Discard
          label={w.discardAll}
          title={w.discardAsk(count)}
          filter={filter}
          typed={count === undefined ? w.discardAll : String(count)}
        />
      )}
    </div>
  );
}

interface ActProps {
  readonly label: string;
  readonly title?: string;
  readonly filter: { readonly id: string } | { readonly until: string };
}

function Redrive({ label, title = `${label}?`, filter }: ActProps) {
  const redrive = useChange('RedriveNotifications', ['ListDeadLetters', 'GetNotifyTargets']);
  return (
    <ConfirmButton
      title={title}
      text={w.redriveText}
      isReversible
      action={label}
      onConfirm={() => untilDone(() => redrive.mutateAsync({ body: filter }))}
    />
  );
}

function Discard({ label, title = `${label}?`, filter, typed }: ActProps & { readonly typed?: string }) {
  const discard = useChange('DiscardNotifications', ['ListDeadLetters', 'GetNotifyTargets']);
  return (
    <ConfirmButton
      title={title}
      text={w.discardText}
      {...(typed === undefined ? {} : { typed })}
      isReversible={false}
      action={label}
      onConfirm={() => untilDone(() => discard.mutateAsync({ body: filter }))}
    />
  );
}

/** One request changes a bounded number of letters, and says whether more match. */
async function untilDone(change: () => Promise<{ readonly isTruncated: boolean }>): Promise<void> {
  let isTruncated = true;
  while (isTruncated) ({ isTruncated } = await change());
}

const OneLetter = ({ letter, allowed }: { readonly letter: Letter; readonly allowed: Allowed }) => (
  <>
    <Facts
      facts={[
        [w.event, recordOf(letter).event],
        [w.target, letter.target],
        [w.bucket, letter.bucket],
        [w.key, recordOf(letter).key],
        [w.firstTried, <Time key="since" at={letter.since} />],
        [w.givenUp, <Time key="time" at={letter.time} />],
        [w.attempts, plural(letter.attempts, w.oneAttempt, w.manyAttempts)],
        [w.error, letter.error],
        [t.ui.request, letter.requestId],
      ]}
    />
    <pre class="code" dir="auto">
      {JSON.stringify(letter.message, null, 2)}
    </pre>
    <div class="actions">
      {allowed('RedriveNotifications') === true && <Redrive label={w.redrive} filter={{ id: letter.id }} />}
      {allowed('DiscardNotifications') === true && <Discard label={w.discard} filter={{ id: letter.id }} />}
    </div>
  </>
);
