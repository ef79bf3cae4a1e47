/** The versions of an object: what each differs in from the latest, and what may be done with it. */
import { useAllowed } from '../../app/allowed.ts';
import { TargetLink } from '../../app/page-link.tsx';
import { useSearchState } from '../../app/url.ts';
import type { StorageReply } from '../../storage/client.ts';
import { readBucketAgain, useStorage } from '../../storage/queries.ts';
import { childrenOf, decodeName, textIn } from '../../storage/xml.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Copy } from '../../ui/copy.tsx';
import { Icon } from '../../ui/icons.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Reading } from '../../ui/states.tsx';
import { Bytes, Time } from '../../ui/values.tsx';
import { copyObject } from './copy.ts';
import { visible } from './listing.ts';
import { removeObjects } from './remove.ts';
import { wordsOfVersions as w } from './words.ts';

export interface Version {
  readonly versionId: string;
  readonly isLatest: boolean;
  readonly isMarker: boolean;
  readonly modified: string;
  readonly size: number;
  readonly etag: string;
}

export interface Of {
  readonly bucket: string;
  readonly objectKey: string;
}

/** Of a Version or DeleteMarker in a listing. */
export const readVersion = (element: Element): Version => ({
  versionId: textIn(element, 'VersionId') ?? '',
  isLatest: textIn(element, 'IsLatest') === 'true',
  isMarker: element.localName === 'DeleteMarker',
  modified: textIn(element, 'LastModified') ?? '',
  size: Number(textIn(element, 'Size') ?? 0),
  etag: textIn(element, 'ETag') ?? '',
});

/** Orders the versions of one key, the newest first: two can have the same time. */
export const compareAges = (one: Version, other: Version): number =>
  Number(other.isLatest) - Number(one.isLatest) || Date.parse(other.modified) - Date.parse(one.modified);

/** The newest first. Other keys that begin with this one follow it in the list. */
const useVersions = ({ bucket, objectKey: key }: Of) =>
  useStorage(
    { method: 'GET', bucket, query: { versions: '', prefix: key, 'encoding-type': 'url' } },
    ({ xml }): { readonly versions: readonly Version[]; readonly hasMore: boolean } => {
      const rows =
        xml === undefined ? [] : [...childrenOf(xml, 'Version'), ...childrenOf(xml, 'DeleteMarker')];
      const versions = rows
        .filter((each) => decodeName(textIn(each, 'Key')) === key)
        .map(readVersion)
        .sort(compareAges);
      return { versions, hasMore: xml !== undefined && textIn(xml, 'NextKeyMarker') === key };
    },
  );

export function Versions(props: Of) {
  const found = useVersions(props);
  const [search] = useSearchState();
  const open = search['version'];
  return (
    <Reading query={found}>
      {({ versions, hasMore }) => (
        <>
          <ul class="versions">
            {versions.map((each) => (
              <li key={each.versionId}>
                <Copy text={each.versionId} />
                <span class="version-facts">
                  {each.isLatest && <Chip tone="good">{w.latest}</Chip>}
                  {each.isMarker ? (
                    <Chip tone="warn" icon="trash">
                      {w.marker}
                    </Chip>
                  ) : (
                    <Bytes value={each.size} />
                  )}
                  <span class="quiet">
                    <Time at={each.modified} />
                  </span>
                  <TargetLink
                    to={{ search: { version: each.versionId === open ? undefined : each.versionId } }}
                    class="button is-icon"
                    label={`${t.ui.details}: ${each.versionId}`}
                    isOpen={each.versionId === open}
                  >
                    <Icon name={each.versionId === open ? 'up' : 'down'} />
                  </TargetLink>
                </span>
                {each.versionId === open && <VersionPart {...props} version={each} latest={versions[0]} />}
              </li>
            ))}
          </ul>
          {hasMore && <p class="quiet">{w.more}</p>}
        </>
      )}
    </Reading>
  );
}

interface PartProps extends Of {
  readonly version: Version;
  readonly latest: Version | undefined;
}

export function VersionPart({ bucket, objectKey: key, version, latest }: PartProps) {
  const put = { action: 's3:PutObject', bucket, key };
  const read = { action: 's3:GetObjectVersion', bucket, key };
  const remove = { action: 's3:DeleteObjectVersion', bucket, key };
  const allowed = useAllowed([put, read, remove]);
  const { versionId, isMarker, isLatest, size } = version;
  const removeIt = async () => {
    const { failed } = await removeObjects(bucket, [{ key, versionId }], new AbortController().signal);
    const [first] = failed;
    if (first !== undefined) throw new Error(`${first.code}: ${first.reason}`);
    await readBucketAgain(bucket);
  };
  return (
    <div class="stack version-part">
      {!isMarker && !isLatest && latest !== undefined && !latest.isMarker && allowed(read) === true && (
        <Differences bucket={bucket} objectKey={key} version={version} latest={latest} />
      )}
      <div class="actions">
        {!isMarker && !isLatest && allowed(put) === true && allowed(read) === true && (
          <ConfirmButton
            icon="refresh"
            title={w.restoreAsk}
            text={w.restoreText}
            impact={[[w.size, <Bytes key="size" value={size} />]]}
            isReversible
            action={w.restore}
            onConfirm={async () => {
              await copyObject({
                from: { bucket, key, size, versionId },
                to: { bucket, key },
                isOverwriting: true,
                signal: new AbortController().signal,
              });
              await readBucketAgain(bucket);
            }}
          />
        )}
        {allowed(remove) === true &&
          (isMarker ? (
            <ConfirmButton
              icon="trash"
              title={w.removeMarkerAsk}
              text={isLatest ? w.removeMarkerText : w.removeOldMarkerText}
              isReversible
              action={w.removeMarker}
              onConfirm={removeIt}
            />
          ) : (
            <ConfirmButton
              icon="trash"
              title={w.removeAsk}
              text={isLatest ? w.removeLatestText : w.removeText}
              impact={[
                [w.versions, 1],
                [w.size, <Bytes key="size" value={size} />],
              ]}
              typed={visible(key)}
              action={w.remove}
              onConfirm={removeIt}
            />
          ))}
      </div>
    </div>
  );
}

interface Difference {
  readonly name: string;
  readonly older: string;
  readonly latest: string;
}

const columns: readonly Column<Difference>[] = [
  { id: 'name', head: w.name, cell: ({ name }) => <bdi class="code">{visible(name)}</bdi> },
  { id: 'older', head: w.this, cell: ({ older }) => <bdi class="code">{visible(older) || '–'}</bdi> },
  { id: 'latest', head: w.latest, cell: ({ latest }) => <bdi class="code">{visible(latest) || '–'}</bdi> },
];

/** Headers that say something of the reply and not of the version. */
const ofReply =
  /^(?:date|x-amz-(?:request-id|id-2|version-id|expiration)|last-modified|accept-ranges|connection|keep-alive|vary|server|content-security-policy|x-content-type-options|cache-status|access-control-.*)$/;

type Facts = ReadonlyMap<string, string>;

/** Headers, metadata and tags. */
const useFacts = ({ bucket, objectKey: key }: Of, { versionId }: Version) =>
  useStorage(
    { method: 'HEAD', bucket, key, query: { versionId } },
    ({ names, header }): Facts =>
      new Map(
        names()
          .filter((name) => !ofReply.test(name))
          .map((name) => [name, header(name) ?? '']),
      ),
  );

function Differences({ version, latest, ...of }: PartProps & { readonly latest: Version }) {
  const older = useFacts(of, version);
  const newer = useFacts(of, latest);
  const tags = { action: 's3:GetObjectVersionTagging', bucket: of.bucket, key: of.objectKey };
  const mayReadTags = useAllowed([tags])(tags) === true;
  const olderTags = useTags({ ...of, versionId: version.versionId }, mayReadTags);
  const newerTags = useTags({ ...of, versionId: latest.versionId }, mayReadTags);
  return (
    <Reading query={older}>
      {(before) => (
        <Reading query={newer}>
          {(after) => {
            const rows = differencesOf(withTags(before, olderTags.data), withTags(after, newerTags.data));
            return rows.length === 0 ? (
              <p class="quiet">{w.same}</p>
            ) : (
              <ShortTable label={w.differences} columns={columns} rows={rows} rowKey={({ name }) => name} />
            );
          }}
        </Reading>
      )}
    </Reading>
  );
}

const withTags = (facts: Facts, tags: readonly Tag[] = []): Facts =>
  new Map([...facts, ...tags.map(({ name, value }) => [`${w.tag} ${name}`, value] as const)]);

function differencesOf(older: Facts, latest: Facts): readonly Difference[] {
  const names = [...new Set([...older.keys(), ...latest.keys()])].sort();
  return names
    .map((name) => ({ name, older: older.get(name) ?? '', latest: latest.get(name) ?? '' }))
    .filter((each) => each.older !== each.latest && each.name !== 'x-amz-tagging-count');
}

export interface Tag {
  readonly name: string;
  readonly value: string;
}

export const readTags = ({ xml }: StorageReply): readonly Tag[] =>
  (xml === undefined ? [] : childrenOf(xml, 'TagSet'))
    .flatMap((set) => childrenOf(set, 'Tag'))
    .map((tag) => ({ name: textIn(tag, 'Key') ?? '', value: textIn(tag, 'Value') ?? '' }));

export const useTags = (
  { bucket, objectKey: key, versionId }: Of & { readonly versionId?: string },
  enabled: boolean,
) => useStorage({ method: 'GET', bucket, key, query: { tagging: '', versionId } }, readTags, { enabled });
