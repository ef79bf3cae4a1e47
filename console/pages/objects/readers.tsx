/** Who can read an object, and what decides it: asked for callers without a key, the roots of accounts, and the users of the owner's account. */
import { useQuery } from '@tanstack/react-query';
import { type Allowed, onBucket, useAllowed } from '../../app/allowed.ts';
import { type Answer, call } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useSession } from '../../app/session.tsx';
import { Chip } from '../../ui/chip.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Reading } from '../../ui/states.tsx';
import { w as decisionWords } from '../why/words.ts';
import { wordsOfReaders as w } from './words.ts';

/** Each costs two requests: the page of accounts and the tab Access answer for others. */
const accountsMax = 20;
const usersMax = 30;
const asksAtOnce = 4;

interface Caller {
  readonly name: string;
  /** Absent: a request without a signature. */
  readonly accessKey?: string;
}

interface Reader extends Caller {
  readonly decision: Answer<'ExplainDecision'>;
}

interface Found {
  readonly readers: readonly Reader[];
  /** Whether there are more accounts or users. */
  readonly isPartial: boolean;
  /** Their keys are those of the settings, which no operation lists. */
  readonly unasked: readonly string[];
}

interface Of {
  readonly bucket: string;
  readonly objectKey: string;
}

const columns: readonly Column<Reader>[] = [
  {
    id: 'name',
    head: w.caller,
    cell: ({ name, accessKey }) => (
      <>
        <bdi>{name}</bdi>
        {accessKey !== undefined && (
          <>
            {' '}
            <bdi class="quiet code">{accessKey}</bdi>
          </>
        )}
      </>
    ),
  },
  {
    id: 'allowed',
    head: w.canRead,
    cell: ({ decision: { allowed } }) => (
      <Chip tone={allowed ? 'good' : 'neutral'} icon={allowed ? 'check' : 'lock'}>
        {allowed ? w.yes : w.no}
      </Chip>
    ),
  },
  {
    id: 'by',
    head: w.decides,
    cell: ({ decision: { by, reason } }) => (
      <bdi>
        {by === undefined
          ? (decisionWords.reasons[reason] ?? reason)
          : `${by.policy} · ${by.sid ?? by.statement}`}
      </bdi>
    ),
  },
];

export function Readers({ bucket, objectKey: key }: Of) {
  const explain = onBucket('ExplainDecision', bucket);
  const about = onBucket('GetBucket', bucket);
  const allowed = useAllowed([explain, about, 'ListAccounts', 'GetAccount', 'ListIamUsers', 'GetIamUser']);
  const own = useSession().session.accessKey;
  const found = useQuery<Found, Error>({
    queryKey: ['ExplainDecision', 'readers', bucket, key],
    queryFn: ({ signal }) => findReaders({ bucket, objectKey: key, own }, allowed, signal),
    enabled: allowed(explain) === true,
  });
  if (allowed(explain) === false) return <p class="quiet">{w.forbidden}</p>;
  return (
    <Reading query={found} rows={4}>
      {({ readers, isPartial, unasked }) => (
        <>
          <p>{w.answer(readers.filter(({ decision }) => decision.allowed).length, readers.length)}</p>
          <div class="readers">
            <ShortTable
              label={w.caller}
              columns={columns}
              rows={readers}
              rowKey={({ name, accessKey }) => `${name} ${accessKey}`}
            />
          </div>
          {unasked.length > 0 && (
            <p class="quiet" dir="auto">
              {w.unasked(unasked.join(', '))}
            </p>
          )}
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
  { bucket, objectKey: key, own }: Of & { readonly own: string },
  allowed: Allowed,
  signal: AbortSignal,
): Promise<Found> {
  const accounts =
    allowed('ListAccounts') === true && allowed('GetAccount') === true
      ? await call('ListAccounts', { query: { limit: accountsMax }, signal })
      : undefined;
  const owner =
    allowed(onBucket('GetBucket', bucket)) === true
      ? (await call('GetBucket', { path: { name: bucket }, signal })).owner
      : undefined;
  const users =
    owner !== undefined && allowed('ListIamUsers') === true && allowed('GetIamUser') === true
      ? await call('ListIamUsers', { path: { account: owner }, query: { limit: usersMax }, signal })
      : undefined;
  const roots = await inTurns(accounts?.rows ?? [], async ({ account, displayName }) => {
    const { rootKeys } = await call('GetAccount', { path: { account }, signal });
    return callerOf(w.root(displayName || account), rootKeys);
  });
  const named = await inTurns(users?.rows ?? [], async ({ name }) => {
    const { accessKeys } = await call('GetIamUser', { path: { account: owner ?? '', user: name }, signal });
    return callerOf(w.user(name), accessKeys);
  });
  const others = [...roots.flat(), ...named.flat()].filter(({ accessKey }) => accessKey !== own);
  const callers: readonly Caller[] = [{ name: w.anonymous }, { name: w.you, accessKey: own }, ...others];
  const readers = await inTurns(callers, async (caller): Promise<Reader> => {
    const body = {
      bucket,
      key,
      action: 's3:GetObject',
      ...('accessKey' in caller ? { accessKey: caller.accessKey } : {}),
    };
    return { ...caller, decision: await call('ExplainDecision', { body, signal }) };
  });
  return {
    readers,
    unasked: (accounts?.rows ?? []).filter((_, at) => roots[at]?.length === 0).map(({ account }) => account),
    isPartial: accounts?.next !== undefined || users?.next !== undefined || accounts === undefined,
  };
}

/** None where it has no key that works. */
function callerOf(
  name: string,
  keys: readonly { readonly accessKey: string; readonly status: string }[],
): readonly Caller[] {
  const active = keys.find(({ status }) => status === 'Active');
  return active === undefined ? [] : [{ name, accessKey: active.accessKey }];
}

/** In their order, a few at a time. */
async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<readonly R[]> {
  const done: R[] = [];
  for (let at = 0; at < items.length; at += asksAtOnce)
    done.push(...(await Promise.all(items.slice(at, at + asksAtOnce).map(work))));
  return done;
}
