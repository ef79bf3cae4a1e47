/** The tags of an object: shown, and changed where policy allows it. */
import { useRef, useState } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { useSearchState } from '../../app/url.ts';
import { storage } from '../../storage/client.ts';
import { useStorageChange } from '../../storage/queries.ts';
import { escapeXml } from '../../storage/xml.ts';
import { t } from '../../text/text.ts';
import { Facts } from '../../ui/facts.tsx';
import { Button, Form } from '../../ui/form.tsx';
import { Stale, useStaleCheck } from '../../ui/stale.tsx';
import { Reading } from '../../ui/states.tsx';
import { visible } from './listing.ts';
import { readTags, type Tag, useTags } from './versions.tsx';
import { wordsOfTags as w } from './words.ts';

/** The most that an object may have (public API). */
const tagsMax = 10;

interface TagsProps {
  readonly bucket: string;
  readonly objectKey: string;
}

export function Tags({ bucket, objectKey: key }: TagsProps) {
  const read = { action: 's3:GetObjectTagging', bucket, key };
  const put = { action: 's3:PutObjectTagging', bucket, key };
  const allowed = useAllowed([read, put]);
  const [search, setSearch] = useSearchState();
  const tags = useTags({ bucket, objectKey: key }, allowed(read) === true);
  if (allowed(read) !== true) return null;
  return (
    <section class="stack">
      <h3>{w.tags}</h3>
      <Reading query={tags} rows={1}>
        {(found) =>
          search['edit'] === 'tags' && allowed(put) === true ? (
            <TagsForm
              bucket={bucket}
              objectKey={key}
              tags={found}
              onClose={() => setSearch({ edit: undefined })}
            />
          ) : (
            <>
              {found.length === 0 ? (
                <p class="quiet">{w.none}</p>
              ) : (
                <Facts facts={found.map(({ name, value }) => [visible(name), visible(value)] as const)} />
              )}
              {allowed(put) === true && (
                <div class="actions">
                  <Button icon="edit" onClick={() => setSearch({ edit: 'tags' })}>
                    {w.edit}
                  </Button>
                </div>
              )}
            </>
          )
        }
      </Reading>
    </section>
  );
}

/** The gateway does not say in which order it stores them. */
const linesOf = (tags: readonly Tag[]): string =>
  tags
    .map(({ name, value }) => `${visible(name)}: ${visible(value)}`)
    .toSorted()
    .join('\n');

/** The rows of the form; there is always one to write into. */
const rowsOf = (tags: readonly Tag[]): readonly Tag[] =>
  tags.length === 0 ? [{ name: '', value: '' }] : tags;

interface TagsFormProps extends TagsProps {
  readonly tags: readonly Tag[];
  readonly onClose: () => void;
}

function TagsForm({ bucket, objectKey: key, tags, onClose }: TagsFormProps) {
  const [rows, setRows] = useState(() => rowsOf(tags));
  const present = useRef(tags);
  const change = useStorageChange();
  const set = (index: number, tag: Partial<Tag>) =>
    setRows(rows.map((each, at) => (at === index ? { ...each, ...tag } : each)));
  const check = useStaleCheck(linesOf(tags), true);
  const named = rows.filter(({ name }) => name !== '');
  const tagging = { bucket, key, query: { tagging: '' } };
  const readStored = async () => {
    present.current = readTags(await storage({ method: 'GET', ...tagging }));
    return linesOf(present.current);
  };
  const save = async () => {
    if (!(await check.isCurrent(readStored))) return false;
    const set = named
      .map(({ name, value }) => `<Tag><Key>${escapeXml(name)}</Key><Value>${escapeXml(value)}</Value></Tag>`)
      .join('');
    const body = `<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet>${set}</TagSet></Tagging>`;
    await change.mutateAsync({ method: 'PUT', ...tagging, body });
    onClose();
    return true;
  };
  return (
    <Form submit={t.ui.save} isChanged={linesOf(named) !== check.base} onSubmit={save} onCancel={onClose}>
      {() => (
        <>
          {rows.map((tag, index) => (
            <div class="input-row" key={index}>
              <input
                class="input"
                aria-label={`${w.name} ${index + 1}`}
                placeholder={w.name}
                maxLength={128}
                dir="auto"
                value={tag.name}
                onInput={(event) => set(index, { name: event.currentTarget.value })}
              />
              <input
                class="input"
                aria-label={`${w.value} ${index + 1}`}
                placeholder={w.value}
                maxLength={256}
                dir="auto"
                value={tag.value}
                onInput={(event) => set(index, { value: event.currentTarget.value })}
              />
              <Button
                icon="trash"
                label={`${w.remove} ${index + 1}`}
                onClick={() => setRows(rows.filter((_, at) => at !== index))}
              />
            </div>
          ))}
          <div>
            <Button
              icon="plus"
              disabled={rows.length >= tagsMax}
              onClick={() => setRows([...rows, { name: '', value: '' }])}
            >
              {w.add}
            </Button>
          </div>
          <Stale check={check} text={linesOf(named)} onReload={() => setRows(rowsOf(present.current))} />
        </>
      )}
    </Form>
  );
}
