/** Access points of a bucket: each in one sentence, a new one, and the panel with its policy and its deletion. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'preact/hooks';
import { type Allowed, onBucket, useAllowed } from '../../app/allowed.ts';
import type { AdminOperationName } from '../../app/client.ts';
import { TargetLink } from '../../app/page-link.tsx';
import { moreOf } from '../../app/queries.ts';
import { useSession } from '../../app/session.tsx';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Copy } from '../../ui/copy.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Button, CheckField, Form, TextField } from '../../ui/form.tsx';
import { Stale, useStaleCheck } from '../../ui/stale.tsx';
import { Empty, Partial, Reading } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Count, Time } from '../../ui/values.tsx';
import { formatPolicy } from '../why/policies.ts';
import {
  type AccessPoint,
  type AccessPointStore,
  adminStore,
  settings,
  storageStore,
} from './access-point-stores.ts';
import { w } from './words.ts';

type Action = 'list' | 'create' | 'remove' | 'readPolicy' | 'putPolicy' | 'removePolicy';

const operations = {
  list: 'ListBucketAccessPoints',
  create: 'CreateBucketAccessPoint',
  remove: 'DeleteBucketAccessPoint',
  readPolicy: 'GetBucketAccessPoint',
  putPolicy: 'PutBucketAccessPointPolicy',
  removePolicy: 'DeleteBucketAccessPointPolicy',
} as const satisfies Readonly<Record<Action, AdminOperationName>>;

/** The actions of the storage protocol. */
const storageActions: Readonly<Record<Action, string>> = {
  list: 's3:ListAccessPoints',
  create: 's3:CreateAccessPoint',
  remove: 's3:DeleteAccessPoint',
  readPolicy: 's3:GetAccessPointPolicy',
  putPolicy: 's3:PutAccessPointPolicy',
  removePolicy: 's3:DeleteAccessPointPolicy',
};

interface Place {
  /** Names the place in the cache of what was read. */
  readonly by: string;
  readonly store: AccessPointStore;
  may(action: Action): boolean;
}

const inStorage = (action: Action, account: string) => ({
  action: storageActions[action],
  resource: action === 'list' ? '*' : `arn:aws:s3:*:${account}:accesspoint/*`,
});

/** Where policies allow the caller to list them; `forbidden` where nowhere, undefined while that is not known. */
function usePlace(bucket: string): Place | 'forbidden' | undefined {
  const { account } = useSession().session;
  const actions = Object.keys(operations) as readonly Action[];
  const allowed: Allowed = useAllowed(
    actions.flatMap((action) => [onBucket(operations[action], bucket), inStorage(action, account)]),
  );
  const byAdmin = (action: Action) => allowed(onBucket(operations[action], bucket));
  const byStorage = (action: Action) => allowed(inStorage(action, account));
  if (byAdmin('list') === undefined) return undefined;
  if (byAdmin('list') === true)
    return { by: 'admin', store: adminStore(bucket), may: (action) => byAdmin(action) === true };
  if (byStorage('list') !== true) return 'forbidden';
  return { by: account, store: storageStore(bucket, account), may: (action) => byStorage(action) === true };
}

interface AccessPointsProps {
  readonly bucket: string;
}

export function AccessPoints({ bucket }: AccessPointsProps) {
  const place = usePlace(bucket);
  if (place === undefined || place === 'forbidden') return null;
  return <List bucket={bucket} place={place} />;
}

interface ListProps extends AccessPointsProps {
  readonly place: Place;
}

const keyOf = (bucket: string) => ['access-points', bucket];

/** Changes with the store, then reads again what was read of the access points of the bucket. */
function useStoreChange<T>(bucket: string, change: (given: T) => Promise<unknown>) {
  const client = useQueryClient();
  return useMutation<unknown, Error, T>({
    mutationFn: change,
    onSuccess: () => client.invalidateQueries({ queryKey: keyOf(bucket) }),
  });
}

function List({ bucket, place }: ListProps) {
  const { store, may, by } = place;
  const [search, setSearch] = useSearchState();
  const { point } = search;
  const found = useInfiniteQuery({
    queryKey: [...keyOf(bucket), by],
    queryFn: ({ pageParam, signal }) => store.list(pageParam === '' ? undefined : pageParam, signal),
    initialPageParam: '',
    getNextPageParam: ({ next }) => next,
  });
  const rows = found.data?.pages.flatMap((page) => [...page.rows]);
  const more = moreOf(found);
  const open = rows?.find(({ accessPoint }) => accessPoint === point);
  const close = () => setSearch({ point: undefined });
  return (
    <Card
      title={w.accessPoints}
      actions={
        may('create') && (
          <Button icon="plus" onClick={() => setSearch({ point: newPoint }, { push: true })}>
            {w.createPoint}
          </Button>
        )
      }
    >
      <Reading query={{ data: rows, error: found.error, refetch: found.refetch }} rows={2}>
        {(all) => (
          <>
            {all.length === 0 && <Empty icon="external" text={w.noPoints} />}
            {all.map((each) => (
              <Line key={each.accessPoint} point={each} isOpen={each.accessPoint === point} />
            ))}
            {more.has && <Partial shown={all.length} busy={more.busy} onMore={more.load} />}
          </>
        )}
      </Reading>
      {point === newPoint && may('create') && (
        <Panel title={w.createPoint} onClose={close}>
          <NewPoint
            bucket={bucket}
            place={place}
            onDone={(name) => setSearch({ point: name })}
            onCancel={close}
          />
        </Panel>
      )}
      {open !== undefined && (
        <Panel title={open.accessPoint} onClose={close}>
          <Details key={open.alias} bucket={bucket} place={place} point={open} onGone={close} />
        </Panel>
      )}
    </Card>
  );
}

/** No access point has a space in its name. */
const newPoint = 'new point';

/** Whether it blocks public access, in the words of the public access block. */
const describeBlocks = ({ blocks }: AccessPoint): string =>
  blocks.length === settings.length
    ? w.pointBlocks
    : blocks.length === 0
      ? w.pointOpen
      : w.pointBlocksSome(blocks.join(', '));

const Line = ({ point, isOpen }: { readonly point: AccessPoint; readonly isOpen: boolean }) => (
  <div class="line">
    <span class="line-name rule-name cut">{point.accessPoint}</span>
    <span class="line-body">
      <span>
        {describeBlocks(point)} {point.statements === 0 ? w.pointNoPolicy : w.pointPolicy(point.statements)}
      </span>
      {point.isPublic && <Chip tone="warn">{w.everyone}</Chip>}
    </span>
    <TargetLink to={{ search: { point: point.accessPoint } }} isOpen={isOpen}>
      {w.openPoint} <span class="visually-hidden">{point.accessPoint}</span>
    </TargetLink>
  </div>
);

interface NewPointProps extends ListProps {
  readonly onDone: (name: string) => void;
  readonly onCancel: () => void;
}

function NewPoint({ bucket, place, onDone, onCancel }: NewPointProps) {
  const [name, setName] = useState('');
  const [isBlocking, setBlocking] = useState(true);
  const create = useStoreChange<string>(bucket, (given) => place.store.create(given, isBlocking));
  return (
    <Form
      submit={w.createPoint}
      disabled={name === ''}
      onSubmit={async () => {
        await create.mutateAsync(name);
        onDone(name);
      }}
      onCancel={onCancel}
    >
      {(faultOf) => (
        <>
          <TextField
            label={w.pointName}
            value={name}
            onChange={setName}
            hint={w.pointNameHint}
            fault={faultOf('accessPoint')}
            required
            code
          />
          <CheckField label={w.pointBlocking} value={isBlocking} onChange={setBlocking} />
          {!isBlocking && <p class="hint">{w.pointOpenHint}</p>}
        </>
      )}
    </Form>
  );
}

interface DetailsProps extends ListProps {
  readonly point: AccessPoint;
  readonly onGone: () => void;
}

function Details({ bucket, place, point, onGone }: DetailsProps) {
  const { store, may } = place;
  const { accessPoint: name, arn, alias, created, account } = point;
  const remove = useStoreChange<string>(bucket, store.remove);
  return (
    <>
      <Facts
        facts={[
          [w.pointAlias, <Copy key="alias" text={alias} />],
          ['ARN', <Copy key="arn" text={arn} />],
          [w.pointAccount, account],
          [w.block, describeBlocks(point)],
          [w.pointCreated, created !== '' && <Time at={created} />],
        ]}
      />
      {may('readPolicy') && <PointPolicy bucket={bucket} place={place} point={point} />}
      {may('remove') && (
        <div class="part">
          <div class="actions">
            <ConfirmButton
              icon="trash"
              title={w.removePointAsk(name)}
              text={w.removePointText}
              impact={[[w.policyTable, <Count key="statements" value={point.statements} />]]}
              typed={name}
              action={w.removePoint}
              onConfirm={async () => {
                await remove.mutateAsync(name);
                onGone();
              }}
            />
          </div>
        </div>
      )}
    </>
  );
}

/** What a first policy may look like: the account itself reads objects. */
const sample = ({ account, arn }: AccessPoint): string =>
  JSON.stringify(
    {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { AWS: `arn:aws:iam::${account}:root` },
          Action: ['s3:GetObject'],
          Resource: `${arn}/object/*`,
        },
      ],
    },
    null,
    2,
  );

function PointPolicy({ bucket, place, point }: Omit<DetailsProps, 'onGone'>) {
  const { store, may, by } = place;
  const { accessPoint: name } = point;
  const [text, setText] = useState<string>();
  const stored = useQuery({
    queryKey: [...keyOf(bucket), by, 'policy', name],
    queryFn: ({ signal }) => store.readPolicy(name, signal),
  });
  const put = useStoreChange<string>(bucket, (document) => store.putPolicy(name, document));
  const remove = useStoreChange<string>(bucket, store.removePolicy);
  const mayPut = may('putPolicy');
  const check = useStaleCheck(formatPolicy(stored.data ?? ''), text !== undefined);
  const readStored = async () => formatPolicy(await store.readPolicy(name, new AbortController().signal));
  return (
    <section class="part">
      <h3>{w.policy}</h3>
      <Reading query={stored} rows={4}>
        {(document) => {
          const current = text ?? (document === '' ? (mayPut ? sample(point) : '') : formatPolicy(document));
          if (!mayPut)
            return document === '' ? (
              <p class="quiet">{w.pointNoPolicy}</p>
            ) : (
              <TextField
                label={w.policyDocument}
                value={current}
                onChange={() => {}}
                lines={14}
                code
                readonly
              />
            );
          return (
            <Form
              submit={t.ui.save}
              disabled={current === '' || (text === undefined && document !== '')}
              onSubmit={async () => {
                if (!(await check.isCurrent(readStored))) return false;
                await put.mutateAsync(current);
                setText(undefined);
                return true;
              }}
              tools={
                document !== '' &&
                may('removePolicy') && (
                  <ConfirmButton
                    action={w.removePolicy}
                    title={w.removePolicyAsk(name)}
                    text={w.removePolicyText}
                    impact={[[w.policyTable, <Count key="statements" value={point.statements} />]]}
                    isReversible={false}
                    onConfirm={async () => {
                      await remove.mutateAsync(name);
                      setText(undefined);
                    }}
                  />
                )
              }
            >
              {(faultOf) => (
                <>
                  <TextField
                    label={w.policyDocument}
                    value={current}
                    onChange={setText}
                    hint={document === '' ? w.pointSample : w.pointPolicyHint}
                    fault={faultOf('document')}
                    lines={14}
                    code
                  />
                  <Stale
                    check={check}
                    text={current}
                    onReload={(now) => {
                      setText(now === '' ? undefined : now);
                      stored.refetch();
                    }}
                  />
                </>
              )}
            </Form>
          );
        }}
      </Reading>
    </section>
  );
}
