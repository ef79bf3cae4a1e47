/** My account: the caller's own access keys, what its account uses of its quota, and its log-ins. */
import { useAllowed } from '../../app/allowed.ts';
import { type Answer, isMissing } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin, useChange } from '../../app/queries.ts';
import { useSession } from '../../app/session.tsx';
import { t } from '../../text/text.ts';
import { AccessKeys } from '../../ui/access-keys.tsx';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Button } from '../../ui/form.tsx';
import { OwnLogins } from '../../ui/logins.tsx';
import { Meter } from '../../ui/progress.tsx';
import { Empty, Reading } from '../../ui/states.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Bytes, Count, Duration, formatBytes, Time } from '../../ui/values.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

/** What IAM is asked about the caller itself. */
const aboutSelf = (action: string, resource: string) => ({ action: `iam:${action}`, resource });

export default function MePage() {
  const { session } = useSession();
  const { account, principal } = session;
  const may = {
    list: aboutSelf('ListAccessKeys', principal),
    create: aboutSelf('CreateAccessKey', principal),
    put: aboutSelf('UpdateAccessKey', principal),
    remove: aboutSelf('DeleteAccessKey', principal),
  };
  const allowed = useAllowed([...Object.values(may), 'GetAccount', 'GetUserUsage']);
  const name = principal.split('/').at(-1) ?? principal;
  const isRoot = principal.endsWith(':root');
  return (
    <>
      <PageHead
        title={t.pages.me}
        answer={<bdi>{isRoot ? w.answerRoot(account) : w.answer(name, account)}</bdi>}
      />
      <div class="cards">
        <Card title={w.keys}>
          {allowed(may.list) === false ? (
            <Empty icon="lock" text={w.noKeys} />
          ) : (
            allowed(may.list) === true && (
              <OwnKeys
                mayCreate={allowed(may.create) === true}
                mayPut={allowed(may.put) === true}
                mayRemove={allowed(may.remove) === true}
              />
            )
          )}
        </Card>
        <Card
          title={w.usage}
          actions={
            allowed('GetUserUsage') === true && (
              <PageLink page="billing" params={{ user: account }}>
                {w.bill}
              </PageLink>
            )
          }
        >
          {allowed('GetAccount') === false ? (
            <Empty icon="lock" text={w.noUsage} />
          ) : (
            allowed('GetAccount') === true && <Usage account={account} />
          )}
        </Card>
      </div>
      <ThisLogin />
      <OwnLogins />
    </>
  );
}

interface OwnKeysProps {
  readonly mayCreate: boolean;
  readonly mayPut: boolean;
  readonly mayRemove: boolean;
}

function OwnKeys({ mayCreate, mayPut, mayRemove }: OwnKeysProps) {
  const { session } = useSession();
  const keys = useAdmin('ListOwnAccessKeys');
  const create = useChange('CreateOwnAccessKey', ['ListOwnAccessKeys']);
  const put = useChange('PutOwnAccessKey', ['ListOwnAccessKeys']);
  const remove = useChange('DeleteOwnAccessKey', ['ListOwnAccessKeys']);
  // IAM has no such user: the settings have it, with its keys.
  if (isMissing(keys.error)) return <p class="quiet card-line">{w.configured(session.accessKey)}</p>;
  return (
    <Reading query={keys}>
      {({ accessKeys }) => (
        <div class="card-line stack">
          {!accessKeys.some(({ accessKey }) => accessKey === session.accessKey) && (
            <p class="quiet">{w.configured(session.accessKey)}</p>
          )}
          <AccessKeys
            keys={accessKeys}
            own={session.accessKey}
            onCreate={mayCreate ? () => create.mutateAsync({}) : undefined}
            onPut={mayPut ? (key, status) => put.mutateAsync({ path: { key }, body: { status } }) : undefined}
            onRemove={mayRemove ? (key) => remove.mutateAsync({ path: { key } }) : undefined}
          />
        </div>
      )}
    </Reading>
  );
}

function Usage({ account }: { readonly account: string }) {
  const found = useAdmin('GetAccount', { path: { account } }, { everyMs });
  return (
    <Reading query={found}>
      {({ bytes, objects, quota }) => (
        <div class="card-line">
          <Facts
            facts={[
              [w.stored, <Bytes key="bytes" value={bytes} />],
              [w.objects, <Count key="objects" value={objects} />],
              [w.quota, <QuotaUse key="quota" bytes={bytes} quota={quota} />],
              [
                w.maxBuckets,
                quota !== undefined && quota.maxBuckets > 0 && <Count value={quota.maxBuckets} />,
              ],
            ]}
          />
        </div>
      )}
    </Reading>
  );
}

type Quota = Answer<'GetAccount'>['quota'];

function QuotaUse({ bytes, quota }: { readonly bytes: number; readonly quota: Quota | undefined }) {
  if (quota === undefined) return <>{w.none}</>;
  if (quota.totalMaxBytes === 0) return <>{w.unlimited}</>;
  return (
    <>
      <Meter label={w.quota} used={bytes} max={quota.totalMaxBytes} />{' '}
      <span class="number">{w.use(formatBytes(bytes), formatBytes(quota.totalMaxBytes))}</span>
    </>
  );
}

function ThisLogin() {
  const { session, logOut } = useSession();
  const { account, principal, accessKey, expiresAt, idleSeconds } = session;
  return (
    <Card
      title={w.login}
      actions={
        <Button icon="logOut" onClick={() => logOut().catch(() => {})}>
          {w.logOut}
        </Button>
      }
    >
      <div class="card-line">
        <Facts
          facts={[
            [w.principal, <Copy key="principal" text={principal} />],
            [w.account, <Copy key="account" text={account} />],
            [w.accessKey, <Copy key="accessKey" text={accessKey} />],
            [w.ends, expiresAt !== undefined && <Time at={expiresAt} />],
            [w.idle, idleSeconds !== undefined && <Duration ms={idleSeconds * 1_000} />],
          ]}
        />
      </div>
    </Card>
  );
}
