/** The quota of a bucket beside what it holds, and the form that sets it. */
import { useState } from 'preact/hooks';
import { type Answer, type Ask, orMissing, request } from '../../app/client.ts';
import { useChange } from '../../app/queries.ts';
import { formatNumber, t } from '../../text/text.ts';
import { Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import { findChanged, isZero, useBases, w as wordsOfLimits } from '../../ui/limits.ts';
import { Meter } from '../../ui/progress.tsx';
import { conditionOnPresent } from '../../ui/stale.tsx';
import { Empty } from '../../ui/states.tsx';
import { Bytes, formatBytes, formatCount, writeSize } from '../../ui/values.tsx';
import { w } from './words.ts';

type Bucket = Answer<'GetBucket'>;

export function Quota({ bucket: { quota, bytes, objects } }: { readonly bucket: Bucket }) {
  if (quota === undefined) return <Empty text={w.noQuota} />;
  const { maxBytes, maxObjects, maxBytesPerObject } = quota;
  return (
    <div class="card-line">
      <Facts
        facts={[
          [w.bytes, <Use key="bytes" label={w.bytes} used={bytes} max={maxBytes} unit="bytes" />],
          [w.objects, <Use key="objects" label={w.objects} used={objects} max={maxObjects} unit="count" />],
          [w.largest, maxBytesPerObject === 0 ? w.unlimited : <Bytes value={maxBytesPerObject} />],
        ]}
      />
    </div>
  );
}

interface UseProps {
  readonly label: string;
  readonly used: number;
  /** 0: unlimited. */
  readonly max: number;
  readonly unit: 'bytes' | 'count';
}

function Use({ label, used, max, unit }: UseProps) {
  if (max === 0) return <>{w.unlimited}</>;
  const format = unit === 'bytes' ? formatBytes : formatCount;
  const share = formatNumber(used / max, { style: 'percent', maximumFractionDigits: 1 });
  return (
    <span class="quota-use">
      <Meter label={label} used={used} max={max} unit={unit} />{' '}
      <span class="number" title={`${formatNumber(used)} / ${formatNumber(max)}`}>
        {w.use(format(used), format(max), share)}
      </span>
    </span>
  );
}

type Limits = NonNullable<Ask<'PutBucketQuota'>['body']>;
type Limit = keyof Limits;

const fields: readonly (readonly [name: Limit, label: string, hint: string])[] = [
  ['maxBytes', w.bytes, w.bytesHint],
  ['maxObjects', w.objects, w.objectsHint],
  ['maxBytesPerObject', w.largest, w.bytesHint],
];

/** What is no number is left to the gateway: it takes sizes with a unit, which the type of its clients does not say. */
const readLimit = (text: string): number =>
  text === '' ? 0 : /^\d+$/.test(text) ? Number(text) : (text as never);

const textOf = (quota: Bucket['quota'], limit: Limit): string => {
  const value = quota?.[limit] ?? 0;
  return limit === 'maxObjects' && value > 0 ? String(value) : writeSize(value);
};

/** Undefined where none is set. */
const readQuota = (name: string) => request('GetBucketQuota', { path: { name } }).catch(orMissing);

interface QuotaFormProps {
  readonly bucket: Bucket;
  /** Whether the caller may read the quota alone, with its ETag. */
  readonly mayGet: boolean;
  readonly onClose: () => void;
}

export function QuotaForm({ bucket: { name, quota }, mayGet, onClose }: QuotaFormProps) {
  const put = useChange('PutBucketQuota', ['GetBucket', 'ListBuckets']);
  const [texts, setTexts] = useState<Readonly<Partial<Record<Limit, string>>>>({});
  const [faulty, setFaulty] = useState<readonly [limit: Limit, fault: string]>();
  const storedText = (limit: Limit) => textOf(quota, limit);
  const bases = useBases(storedText);
  const changed = findChanged(
    fields.map(([limit]) => limit),
    texts,
    storedText,
  );
  const submit = async () => {
    const [first] = changed.find(([, text]) => isZero(text)) ?? [];
    setFaulty(first && [first, wordsOfLimits.zero]);
    if (first !== undefined) return false;
    const present = mayGet ? await readQuota(name) : undefined;
    const conflict = mayGet && bases.findConflict(changed, (limit) => textOf(present?.json, limit));
    if (conflict) {
      setFaulty(conflict);
      return false;
    }
    const body: Limits = Object.fromEntries(changed.map(([limit, text]) => [limit, readLimit(text)]));
    const condition = mayGet ? conditionOnPresent(present) : {};
    await put.mutateAsync({ path: { name }, ...condition, body });
    onClose();
    return true;
  };
  return (
    <Panel title={w.setQuota} onClose={onClose}>
      <Form submit={t.ui.save} disabled={changed.length === 0} onSubmit={submit} onCancel={onClose}>
        {(faultOf) => (
          <>
            <p class="quiet">{w.quotaText}</p>
            {fields.map(([limit, label, hint]) => (
              <TextField
                key={limit}
                label={label}
                value={texts[limit] ?? storedText(limit)}
                onChange={(text) => {
                  bases.edit(limit);
                  setTexts({ ...texts, [limit]: text });
                }}
                hint={hint}
                fault={faulty?.[0] === limit ? faulty[1] : faultOf(limit)}
              />
            ))}
          </>
        )}
      </Form>
    </Panel>
  );
}
