/**
 * Who can read an object, and what decides it: asked for callers without a key, the roots of accounts, and the users of
 * the owner's account.
 */
import { useQuery } from '@tanstack/react-query';
import { type Allowed, onBucket, useAllowed } from '../../app/allowed.ts';
import { type Answer, call } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useSession } from '../../app/session.tsx';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Reading } from '../../ui/states.tsx';
import { w as decisionWords } from '../why/words.ts';
import { WhyLink } from './why-link.tsx';
import { wordsOfReaders as w } from './words.ts';

/** One batch asks about all of them; the page of accounts and the tab Access answer for others. */
const accountsMax = 100;
const usersMax = 98;

/** Neither a key nor a principal: a request without a signature. */
interface Caller {
  readonly name: string;
  readonly accessKey?: string;
  readonly principal?: string;
}

interface Reader extends Caller {
  readonly decision: Answer<'ExplainDecisions'>['answers'][number];
}

interface Found {
  readonly readers: readonly Reader[];
  /** Whether there are more accounts or users. */
  readonly isPartial: boolean;
}

const readAction = 's3:GetObject';

interface Of {
  readonly bucket: string;
  readonly objectKey: string;
}

const columns: readonly Column<Reader>[] = [
  {
    id: 'name',
    head: () => `${w.caller} · ${w.decides}`,
    cell: ({ name, decision: { by, reason, refused } }) => (
      <>
        <bdi class="cut" title={name}>
          {name}
        </bdi>
        <bdi class="quiet">
          {refused?.code ??
            (by === undefined
              ? (decisionWords.reasons[reason ?? ''] ?? reason)
              : `${by.policy} · ${by.sid ?? by.statement}`)}
        </bdi>
      </>
    ),
  },
  {
    id: 'allowed',
    head: w.canRead,
    cell: ({ decision: { allowed = false } }) => (
      <Chip tone={allowed ? 'good' : 'neutral'} icon={allowed ? 'check' : 'lock'}>
        {allowed ? w.yes : w.no}
      </Chip>
    ),
  },
];

/** To the page that shows every statement of the decision. */
const whyColumn = ({ bucket, objectKey }: Of): Column<Reader> => ({
  id: 'why',
  head: t.ui.why,
  isControl: true,
  cell: ({ accessKey, principal }) => (
    <WhyLink bucket={bucket} objectKey={objectKey} accessKey={accessKey} principal={principal} />
  ),
});

export function Readers({ bucket, objectKey: key }: Of) {
  const explain = onBucket('ExplainDecision', bucket);
  const about = onBucket('GetBucket', bucket);
  const allowed = useAllowed([explain, about, 'ListAccounts', 'ListIamUsers']);
  const { accessKey: own, principal } = useSession().session;
  const found = useQuery<Found, Error>({
    queryKey: ['ExplainDecisions', 'readers', bucket, key],
    queryFn: ({ signal }) => findReaders({ bucket, objectKey: key, own, principal }, allowed, signal),
    enabled: allowed(explain) === true,
  });
  if (allowed(explain) === false) return <p class="quiet">{w.forbidden}</p>;
  return (
    <Reading query={found} rows={4}>
      {({ readers, isPartial }) => (
        <>
          <p>
            {w.answer(readers.filter(({ decision }) => decision.allowed === true).length, readers.length)}
          </p>
          <div class="readers">
            <ShortTable
              label={w.caller}
              columns={[...columns, whyColumn({ bucket, objectKey: key })]}
              rows={readers}
              rowKey={({ name, principal }) => `${name} ${principal}`}
            />
          </div>
          {isPartial && <p class="quiet">{w.partial}</p>}
          <p>
            <PageLink page="access" params={{ bucket }} search={{ key }}>
              {w.others}
            </PageLink>
          </p>
        </>
      )}
    </Reading>
  );
}

async function findReaders(
  { bucket, objectKey: key, own, principal }: Of & { readonly own: string; readonly principal: string },
  allowed: Allowed,
  signal: AbortSignal,
): Promise<Found> {
  const accounts =
    allowed('ListAccounts') === true
      ? await call('ListAccounts', { query: { limit: accountsMax }, signal })
      : undefined;
  const owner =
    allowed(onBucket('GetBucket', bucket)) === true
      ? (await call('GetBucket', { path: { name: bucket }, signal })).owner
      : undefined;
  const users =
    owner !== undefined && allowed('ListIamUsers') === true
      ? await call('ListIamUsers', { path: { account: owner }, query: { limit: usersMax }, signal })
      : undefined;
  const all: readonly Caller[] = [
    { name: w.anonymous },
    { name: w.you, accessKey: own },
    ...(accounts?.rows ?? []).map(({ account, displayName }) => ({
      name: w.root(displayName || account),
      principal: `arn:aws:iam::${account}:root`,
    })),
    ...(users?.rows ?? []).map(({ name, arn }) => ({ name: w.user(name), principal: arn })),
  ];
  const callers = all.filter((each) => each.principal === undefined || each.principal !== principal);
  const questions = callers.map(({ name: _, ...caller }) => ({ ...caller, bucket, key, action: readAction }));
  const { answers } = await call('ExplainDecisions', { body: { questions }, signal });
  return {
    readers: callers.flatMap((caller, index) => {
      const decision = answers[index];
      return decision === undefined ? [] : [{ ...caller, decision }];
    }),
    isPartial: accounts?.next !== undefined || users?.next !== undefined || accounts === undefined,
  };
}
