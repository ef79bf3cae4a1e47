/** One object: what is known of it, its versions and where their bytes are, and a link for others. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { useSession } from '../../app/session.tsx';
import { useSearchState } from '../../app/url.ts';
import { presign } from '../../storage/client.ts';
import { useStorage } from '../../storage/queries.ts';
import { t } from '../../text/text.ts';
import { Copy } from '../../ui/copy.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { type Fact, Facts } from '../../ui/facts.tsx';
import { Button, Form, SelectField } from '../../ui/form.tsx';
import { Segments } from '../../ui/segments.tsx';
import { Reading, Skeleton } from '../../ui/states.tsx';
import { Bytes, Time } from '../../ui/values.tsx';
import { nameOf, visible } from './listing.ts';
import { Preview } from './preview.tsx';
import { Readers } from './readers.tsx';
import { Tags } from './tags.tsx';
import { Versions } from './versions.tsx';
import { WhyLink } from './why-link.tsx';
import { w } from './words.ts';

type Version = Answer<'StatObject'>['versions'][number];

interface ObjectPanelProps {
  readonly bucket: string;
  readonly objectKey: string;
  readonly actions: ComponentChildren;
  readonly onClose: () => void;
}

const viewNames = ['details', 'preview', 'versions', 'readers'] as const;
type View = (typeof viewNames)[number];

const downloadSeconds = 300;

/** The name that the browser saves it by: the last part of the key. */
const attachment = (key: string): string =>
  `attachment; filename*=UTF-8''${encodeURIComponent(nameOf(key)).replace(/['()*]/g, '_')}`;

async function download(bucket: string, key: string): Promise<void> {
  const query = { 'response-content-disposition': attachment(key) };
  const link = document.createElement('a');
  link.href = await presign({ bucket, key, query, seconds: downloadSeconds });
  link.rel = 'noopener';
  link.click();
}

export function ObjectPanel({ bucket, objectKey: key, actions, onClose }: ObjectPanelProps) {
  const stat = { action: 'admin:StatObject', bucket };
  const read = { action: 's3:GetObject', bucket, key };
  const history = { action: 's3:ListBucketVersions', bucket };
  const explain = onBucket('ExplainDecision', bucket);
  const allowed = useAllowed([stat, read, history, explain]);
  const [search, setSearch] = useSearchState();
  const { session } = useSession();
  const maySee: Readonly<Record<View, boolean | undefined>> = {
    details: true,
    preview: allowed(read),
    versions: allowed(history),
    readers: allowed(explain),
  };
  const views = viewNames.filter((each) => maySee[each] === true);
  const asked = viewNames.find((each) => each === search['view']) ?? 'details';
  // Undefined while it is not known whether the caller may see the view of the address: another view would flicker and be read in vain.
  const view = maySee[asked] === undefined ? undefined : maySee[asked] ? asked : 'details';
  return (
    <Panel
      title={<span title={visible(key)}>{visible(nameOf(key))}</span>}
      onClose={onClose}
      actions={
        <>
          {allowed(read) === true && (
            <Button
              icon="download"
              label={w.download}
              onClick={() => download(bucket, key).catch(() => {})}
            />
          )}
          {actions}
        </>
      }
    >
      <Segments
        label={w.views}
        value={view ?? asked}
        options={views.map((each) => [each, w.view[each]] as const)}
        onChange={(next) =>
          setSearch({ view: next === 'details' ? undefined : next, version: undefined, edit: undefined })
        }
      />
      {view === undefined && <Skeleton rows={4} />}
      {view === 'preview' && <Preview bucket={bucket} objectKey={key} />}
      {view === 'versions' && <Versions bucket={bucket} objectKey={key} />}
      {view === 'readers' && <Readers bucket={bucket} objectKey={key} />}
      {view === 'details' && (
        <>
          {allowed(stat) === true && <Stat bucket={bucket} objectKey={key} />}
          {allowed(stat) === false && allowed(read) === true && <Head bucket={bucket} objectKey={key} />}
          <Tags bucket={bucket} objectKey={key} />
          {allowed(read) === true && <Link bucket={bucket} objectKey={key} />}
          {allowed(explain) === true && (
            <div class="actions">
              <WhyLink bucket={bucket} objectKey={key} accessKey={session.accessKey} isButton />
            </div>
          )}
        </>
      )}
    </Panel>
  );
}

interface Of {
  readonly bucket: string;
  readonly objectKey: string;
}

const Part = ({ title, children }: { readonly title: string; readonly children: ComponentChildren }) => (
  <section class="stack">
    <h3>{title}</h3>
    {children}
  </section>
);

const textFacts = (values: Readonly<Record<string, string>>): readonly Fact[] =>
  Object.entries(values).map(([name, value]) => [visible(name), visible(value)] as const);

function Stat({ bucket, objectKey: key }: Of) {
  const stat = useAdmin('StatObject', { path: { name: bucket }, query: { key, limit: 1 } });
  return (
    <Reading query={stat}>
      {({ versions }) => {
        const [latest] = versions;
        if (latest === undefined) return null;
        return (
          <>
            <VersionFacts objectKey={key} version={latest} />
            {(
              [
                [w.headers, latest.headers],
                [w.metadata, latest.metadata],
              ] as const
            ).map(
              ([title, values]) =>
                Object.keys(values).length > 0 && (
                  <Part key={title} title={title}>
                    <Facts facts={textFacts(values)} />
                  </Part>
                ),
            )}
            <Part title={w.place}>
              <Place version={latest} />
            </Part>
          </>
        );
      }}
    </Reading>
  );
}

function VersionFacts({ objectKey, version }: { readonly objectKey: string; readonly version: Version }) {
  const { checksum, encryption, retention, expires, replication, restoredUntil, parts } = version;
  const facts: readonly Fact[] = [
    [w.key, <Copy key="key" text={objectKey} shown={visible(objectKey)} />],
    [w.size, <Bytes key="size" value={version.size} />],
    [w.modified, <Time key="time" at={version.modified} />],
    [w.etag, <Copy key="etag" text={version.etag} />],
    [w.version, <Copy key="version" text={version.versionId} />],
    [w.owner, version.owner],
    [w.storageClass, version.storageClass],
    [
      w.checksum,
      checksum && <Copy text={checksum.value} shown={`${checksum.algorithm} ${checksum.value}`} />,
    ],
    [w.encryption, encryption?.algorithm ?? w.noEncryption],
    [w.retention, retention && <Lock key="lock" mode={retention.mode} until={retention.until} />],
    [w.legalHold, version.legalHold ? t.ui.yes : t.ui.no],
    [w.replication, replication],
    [w.expires, expires && <Expiry at={expires.at} rule={expires.rule} />],
    [w.restored, restoredUntil !== undefined && <Time at={restoredUntil} />],
    [w.parts, parts > 1 && String(parts)],
  ];
  return <Facts facts={facts} />;
}

const Expiry = ({ at, rule }: { readonly at: string; readonly rule: string }) => (
  <span>
    <Time at={at} /> <bdi>{w.byRule(visible(rule))}</bdi>
  </span>
);

const Lock = ({ mode, until }: { readonly mode: string; readonly until: string }) => (
  <span>
    <Time at={until} /> <span class="code">{mode}</span>
  </span>
);

/** Bytes by cluster: extents are too many to be listed one by one. */
function Place({ version: { extents, extentsLeftOut = 0 } }: { readonly version: Version }) {
  if (extents.length === 0) return <p class="quiet">{w.inMetadata}</p>;
  const clusters = [...new Set(extents.map(({ cluster }) => cluster))];
  const facts = clusters.map((cluster): Fact => {
    const own = extents.filter((each) => each.cluster === cluster);
    const bytes = own.reduce((sum, each) => sum + each.bytes, 0);
    return [
      cluster,
      <span key={cluster}>
        {w.extents(own.length)}, <Bytes value={bytes} />
      </span>,
    ];
  });
  return (
    <>
      <Facts facts={facts} />
      {extentsLeftOut > 0 && <p class="quiet">{w.leftOut(extentsLeftOut)}</p>}
    </>
  );
}

const checksumPrefix = 'x-amz-checksum-';

/** What the storage protocol says of an object, for those who may not ask the operator API. */
function Head({ bucket, objectKey: key }: Of) {
  const head = useStorage(
    { method: 'HEAD', bucket, key, headers: { 'x-amz-checksum-mode': 'ENABLED' } },
    ({ header, names }): readonly Fact[] => [
      [w.size, <Bytes key="size" value={Number(header('content-length') ?? 0)} />],
      [w.modified, <Time key="time" at={header('last-modified') ?? ''} />],
      [w.etag, <Copy key="etag" text={(header('etag') ?? '').replaceAll('"', '')} />],
      [w.version, header('x-amz-version-id')],
      ['Content-Type', header('content-type')],
      [w.storageClass, header('x-amz-storage-class') ?? 'STANDARD'],
      [w.encryption, header('x-amz-server-side-encryption') ?? w.noEncryption],
      [w.retention, lockIn(header('x-amz-object-lock-mode'), header('x-amz-object-lock-retain-until-date'))],
      [w.replication, header('x-amz-replication-status')],
      [w.expires, expiryIn(header('x-amz-expiration'))],
      [w.legalHold, header('x-amz-object-lock-legal-hold')],
      // An object has at most one checksum; the name of the header has its algorithm.
      ...names()
        .filter((name) => name.startsWith(checksumPrefix) && name !== `${checksumPrefix}type`)
        .map((name): Fact => {
          const algorithm = name.slice(checksumPrefix.length);
          return [`${w.checksum} ${algorithm}`, <Copy key={name} text={header(name) ?? ''} />];
        }),
      ...names()
        .filter((name) => name.startsWith('x-amz-meta-'))
        .map((name): Fact => [visible(name), visible(header(name) ?? '')]),
    ],
  );
  return (
    <Reading query={head}>
      {(facts) => <Facts facts={[[w.key, <Copy key="key" text={key} shown={visible(key)} />], ...facts]} />}
    </Reading>
  );
}

/** `expiry-date="Fri, 27 Nov 2026 00:00:00 GMT", rule-id="old"` as in the operator API. */
function expiryIn(header: string | undefined): ComponentChildren {
  const [, at, rule] = /^expiry-date="(.*?)", rule-id="(.*)"$/.exec(header ?? '') ?? [];
  return at !== undefined && rule !== undefined ? <Expiry at={at} rule={decodeURIComponent(rule)} /> : header;
}

const lockIn = (mode: string | undefined, until: string | undefined): ComponentChildren =>
  mode !== undefined && until !== undefined && <Lock mode={mode} until={until} />;

const lifetimes = ['5', '10', '15'] as const;

function Link({ bucket, objectKey: key }: Of) {
  const [minutes, setMinutes] = useState<(typeof lifetimes)[number]>('15');
  const [link, setLink] = useState<{ readonly url: string; readonly endsAt: number }>();
  return (
    <Part title={w.link}>
      <Form
        submit={w.makeLink}
        onSubmit={async () => {
          const seconds = Number(minutes) * 60;
          const url = await presign({ bucket, key, seconds });
          setLink({ url, endsAt: Date.now() + seconds * 1_000 });
        }}
      >
        {() => (
          <SelectField
            label={w.linkFor}
            hint={w.linkHint}
            value={minutes}
            options={lifetimes.map((each) => [each, w.minutes(Number(each))] as const)}
            onChange={setMinutes}
          />
        )}
      </Form>
      {link !== undefined && (
        <>
          <Copy text={link.url} />
          <p class="quiet">
            {w.linkEnds} <Time at={link.endsAt} />
          </p>
        </>
      )}
    </Part>
  );
}
