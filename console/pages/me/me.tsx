/** My account: the caller's own access keys and MFA devices, what its account uses of its quota, and its log-ins. */
import { type Allowed, useAllowed } from '../../app/allowed.ts';
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
import { MfaDevices } from '../../ui/mfa-devices.tsx';
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
  const isRoot = principal.endsWith(':root');
  const name = isRoot ? 'root' : (principal.split('/').at(-1) ?? principal);
  const device = `arn:aws:iam::${account}:mfa/${suggest(name)}`;
  const mfa = {
    list: aboutSelf('ListMFADevices', principal),
    create: aboutSelf('CreateVirtualMFADevice', device),
    enable: aboutSelf('EnableMFADevice', principal),
    resync: aboutSelf('ResyncMFADevice', principal),
    deactivate: aboutSelf('DeactivateMFADevice', principal),
    remove: aboutSelf('DeleteVirtualMFADevice', device),
  };
  const allowed = useAllowed([
    ...Object.values(may),
    ...Object.values(mfa),
    ...(['GetAccount', 'GetUserUsage'] as const),
  ]);
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
      <Card title={w.mfa}>
        {allowed(mfa.list) === false ? (
          <Empty icon="lock" text={w.noMfa} />
        ) : (
          allowed(mfa.list) === true && <OwnMfa name={name} mfa={mfa} allowed={allowed} />
        )}
      </Card>
      <ThisLogin />
      <OwnLogins />
    </>
  );
}

/** The name of a new device, unless the caller types another; policies are asked about it. */
const suggest = (name: string): string => `mfa-${name.replace(/[^\w+=,.@-]/g, '-')}`;

type Mfa = Readonly<
  Record<'list' | 'create' | 'enable' | 'resync' | 'deactivate' | 'remove', ReturnType<typeof aboutSelf>>
>;

interface OwnMfaProps {
  readonly name: string;
  readonly mfa: Mfa;
  readonly allowed: Allowed;
}

function OwnMfa({ name, mfa, allowed }: OwnMfaProps) {
  const found = useAdmin('ListOwnMfaDevices');
  const then = ['ListOwnMfaDevices'] as const;
  const create = useChange('CreateOwnMfaDevice', then);
  const enable = useChange('EnableOwnMfaDevice', then);
  const resync = useChange('ResyncOwnMfaDevice', then);
  const remove = useChange('DeleteOwnMfaDevice', then);
  if (isMissing(found.error)) return <p class="quiet card-line">{w.configuredMfa}</p>;
  const may = (what: keyof Mfa) => allowed(mfa[what]) === true;
  const removeDevice = (device: string) => remove.mutateAsync({ path: { device } });
  return (
    <Reading query={found}>
      {({ mfaDevices, unassigned = [] }) => (
        <div class="card-line stack">
          <MfaDevices
            devices={mfaDevices}
            unassigned={unassigned}
            suggested={suggest(name)}
            onCreate={may('create') ? (device) => create.mutateAsync({ body: { name: device } }) : undefined}
            onEnable={
              may('enable') ? (device, body) => enable.mutateAsync({ path: { device }, body }) : undefined
            }
            onResync={
              may('resync') ? (device, body) => resync.mutateAsync({ path: { device }, body }) : undefined
            }
            onDeactivate={may('deactivate') && may('remove') ? removeDevice : undefined}
            onRemove={may('remove') ? removeDevice : undefined}
          />
        </div>
      )}
    </Reading>
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
