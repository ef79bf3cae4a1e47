/** Who may do what in a bucket: what decides in one sentence each, the statements of its policy, and a question about one caller. */
import { useParams } from '@tanstack/react-router';
import type { ComponentChildren } from 'preact';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin } from '../../app/queries.ts';
import { useSession } from '../../app/session.tsx';
import { useConfigurations } from '../../storage/configurations.ts';
import { accessFamilies, storageFamilies } from '../../storage/families.ts';
import { Chip } from '../../ui/chip.tsx';
import { ForbiddenCard } from '../../ui/forbidden.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Reading, Skeleton } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { AskWhy } from '../why/question.tsx';
import { AccessPoints } from './access-points.tsx';
import { SigningKey } from './signing-key.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

type Texts = string | readonly string[];
interface Statement {
  readonly Sid?: string;
  readonly Effect?: string;
  readonly Principal?: string | Readonly<Record<string, Texts>>;
  readonly NotPrincipal?: string | Readonly<Record<string, Texts>>;
  readonly Action?: Texts;
  readonly NotAction?: Texts;
  readonly Resource?: Texts;
  readonly NotResource?: Texts;
  readonly Condition?: object;
}
interface Documents {
  readonly policy?: { readonly Statement?: Statement | readonly Statement[] };
  readonly 'public-access-block'?: Readonly<Record<string, boolean>>;
  readonly acl?: { readonly AccessControlList?: readonly Grant[] };
  readonly 'ownership-controls'?: { readonly Rule?: readonly { readonly ObjectOwnership?: string }[] };
}
interface Grant {
  readonly Grantee?: { readonly URI?: string };
}

export default function AccessPage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const { session } = useSession();
  const list = onBucket('ListBucketConfigurations', bucket);
  const get = onBucket('GetBucket', bucket);
  const explain = onBucket('ExplainDecision', bucket);
  const allowed = useAllowed([list, get, explain]);
  const { by, families, query } = useConfigurations(bucket, accessFamilies);
  const found = useAdmin(
    'GetBucket',
    { path: { name: bucket } },
    { everyMs, enabled: allowed(get) === true },
  );
  if (by === undefined || allowed(get) === undefined) return <Skeleton rows={5} />;
  const missing = by === 'operator-api' ? get : list;
  if (by === 'forbidden' || (by === 'operator-api' && allowed(get) === false))
    return (
      <>
        <ForbiddenCard action={session.isOperator ? missing.action : storageFamilies.policy.reads} />
        {allowed(explain) === true && <AskWhy bucket={bucket} />}
      </>
    );
  return (
    <>
      <Card title={w.rules}>
        <Reading query={query} rows={5}>
          {(documents) =>
            allowed(get) === true ? (
              <Reading query={found} rows={5}>
                {(data) => <Rules name={bucket} bucket={data} families={families} documents={documents} />}
              </Reading>
            ) : (
              <Rules name={bucket} bucket={undefined} families={families} documents={documents} />
            )
          }
        </Reading>
      </Card>
      <AccessPoints key={bucket} bucket={bucket} />
      {allowed(explain) === true && <AskWhy key={bucket} bucket={bucket} />}
    </>
  );
}

const listOf = <T,>(value: T | readonly T[] | undefined): readonly T[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value as T];

interface RulesProps {
  readonly name: string;
  /** Undefined where policies do not allow to read it. */
  readonly bucket: Answer<'GetBucket'> | undefined;
  /** Those that policies allow to read. */
  readonly families: readonly string[];
  readonly documents: Documents;
}

/** What the ownership of a bucket without a document of its own is. */
const ownershipDefault = 'ObjectWriter';
const isForEveryone = ({ Grantee }: Grant): boolean =>
  /\/(?:All|Authenticated)Users$/.test(Grantee?.URI ?? '');

function Rules({ name, bucket, families, documents }: RulesProps) {
  const may = (family: (typeof accessFamilies)[number]) => families.includes(family);
  const statements = listOf(documents.policy?.Statement);
  const block = Object.entries(documents['public-access-block'] ?? {}).flatMap(([each, isOn]) =>
    isOn ? each : [],
  );
  const policyIsPublic = bucket?.policyIsPublic;
  const aclIsPublic = bucket?.aclIsPublic ?? documents.acl?.AccessControlList?.some(isForEveryone) ?? false;
  const ownership =
    bucket?.objectOwnership ??
    documents['ownership-controls']?.Rule?.[0]?.ObjectOwnership ??
    ownershipDefault;
  return (
    <>
      {may('policy') && (
        <Rule name={w.policy} bucket={name} family="policy">
          {documents.policy === undefined
            ? w.noPolicy
            : [w.statements(statements.length), describePublic(policyIsPublic)].join(' ')}{' '}
          {policyIsPublic === true && <PublicChip />}
        </Rule>
      )}
      {may('public-access-block') && (
        <Rule name={w.block} bucket={name} family="public-access-block">
          {block.length === 0 ? w.noBlock : w.blocks(block.join(', '))}
        </Rule>
      )}
      {may('acl') && (
        <Rule name={w.acl} bucket={name} family="acl">
          {aclIsPublic ? w.aclPublic : w.aclPrivate} {aclIsPublic && <PublicChip />}
        </Rule>
      )}
      {may('ownership-controls') && (
        <Rule name={w.ownership} bucket={name} family="ownership-controls">
          <span class="code">{ownership}</span> {w.ownershipHints[ownership]}
        </Rule>
      )}
      {bucket !== undefined && (
        <Rule name={w.signingKey} bucket={name}>
          <SigningKey bucket={bucket} />
        </Rule>
      )}
      {statements.length > 0 && (
        <ShortTable
          label={w.policyTable}
          columns={columns}
          rows={statements.map((statement, index) => ({ ...statement, index }))}
          rowKey={({ index }) => String(index)}
        />
      )}
    </>
  );
}

const describePublic = (isPublic: boolean | undefined): string =>
  isPublic === undefined ? '' : isPublic ? w.public : w.notPublic;

const PublicChip = () => <Chip tone="warn">{w.everyone}</Chip>;

interface RuleProps {
  readonly name: string;
  readonly bucket: string;
  /** The configuration that says it. */
  readonly family?: string;
  readonly children: ComponentChildren;
}

const Rule = ({ name, bucket, family, children }: RuleProps) => (
  <div class="line">
    <span class="line-name rule-name">{name}</span>
    <span class="line-body" dir="auto">
      {children}
    </span>
    {family !== undefined && (
      <PageLink page="bucketSettings" params={{ bucket }} search={{ family }}>
        {w.edit} <span class="visually-hidden">{name}</span>
      </PageLink>
    )}
  </div>
);

const join = (value: Texts | undefined): string => listOf(value).join(', ');
const principalOf = (value: Statement['Principal']): string =>
  value === undefined || typeof value === 'string'
    ? (value ?? '')
    : Object.values(value).map(join).join(', ');

/** The one that is given: what it names, or all but that. */
const either = (positive: string, negative: string): string =>
  positive === '' ? w.except(negative) : positive;

const columns: readonly Column<Statement & { readonly index: number }>[] = [
  {
    id: 'effect',
    head: w.effect,
    cell: ({ Effect = '' }) => <Chip tone={Effect === 'Deny' ? 'bad' : 'good'}>{Effect}</Chip>,
  },
  {
    id: 'principal',
    head: w.principal,
    cell: ({ Principal, NotPrincipal }) => (
      <bdi class="code two-lines">{either(principalOf(Principal), principalOf(NotPrincipal))}</bdi>
    ),
  },
  {
    id: 'actions',
    head: w.actions,
    cell: ({ Action, NotAction }) => (
      <bdi class="code two-lines">{either(join(Action), join(NotAction))}</bdi>
    ),
  },
  {
    id: 'resources',
    head: w.resources,
    cell: ({ Resource, NotResource }) => (
      <bdi class="code two-lines">{either(join(Resource), join(NotResource))}</bdi>
    ),
    isMinor: true,
  },
  {
    id: 'condition',
    head: w.condition,
    cell: ({ Condition }) =>
      Condition === undefined ? '–' : <bdi class="code two-lines">{JSON.stringify(Condition)}</bdi>,
    isMinor: true,
  },
];
