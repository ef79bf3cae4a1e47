/** The quota of a bucket beside what it holds, and the form that sets it. */
import { useState } from 'preact/hooks';
import type { Answer, Ask } from '../../app/client.ts';
import { useChange } from '../../app/queries.ts';
import { formatNumber, t } from '../../text/text.ts';
import { Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import { Meter } from '../../ui/progress.tsx';
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

/** What is no number is left to the gateway: it takes sizes with a unit, which the type of its clients does not say. */
const readLimit = (text: string): number => {
  const trimmed = text.trim();
  return trimmed === '' ? 0 : /^\d+$/.test(trimmed) ? Number(trimmed) : (trimmed as never);
};

export function QuotaForm({
  bucket: { name, quota },
  onClose,
}: {
  readonly bucket: Bucket;
  readonly onClose: () => void;
}) {
  const put = useChange('PutBucketQuota', ['GetBucket', 'ListBuckets']);
  const [maxBytes, setBytes] = useState(writeSize(quota?.maxBytes ?? 0));
  const [maxObjects, setObjects] = useState(quota?.maxObjects ? String(quota.maxObjects) : '');
  const [maxBytesPerObject, setLargest] = useState(writeSize(quota?.maxBytesPerObject ?? 0));
  const submit = async () => {
    const body: Limits = {
      maxBytes: readLimit(maxBytes),
      maxObjects: readLimit(maxObjects),
      maxBytesPerObject: readLimit(maxBytesPerObject),
    };
    await put.mutateAsync({ path: { name }, body });
    onClose();
  };
  return (
    <Panel title={w.setQuota} onClose={onClose}>
      <Form submit={t.ui.save} onSubmit={submit} onCancel={onClose}>
        {(faultOf) => (
          <>
            <p class="quiet">{w.quotaText}</p>
            <TextField
              label={w.bytes}
              value={maxBytes}
              onChange={setBytes}
              hint={w.bytesHint}
              fault={faultOf('maxBytes')}
            />
            <TextField
              label={w.objects}
              value={maxObjects}
              onChange={setObjects}
              hint={w.objectsHint}
              fault={faultOf('maxObjects')}
            />
            <TextField
              label={w.largest}
              value={maxBytesPerObject}
              onChange={setLargest}
              hint={w.bytesHint}
              fault={faultOf('maxBytesPerObject')}
            />
          </>
        )}
      </Form>
    </Panel>
  );
}
