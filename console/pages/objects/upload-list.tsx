/** What is being uploaded into a bucket, and what has become of it. */
import { Refused } from '../../app/client.ts';
import { t } from '../../text/text.ts';
import { Chip, type Tone } from '../../ui/chip.tsx';
import { Button } from '../../ui/form.tsx';
import { Progress } from '../../ui/progress.tsx';
import { Failure } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { nameOf, visible } from './listing.ts';
import { clearUploads, retryUpload, stopUpload, type Upload, useUploads } from './uploads.ts';
import { w } from './words.ts';

const tones: Readonly<Record<Upload['state'], Tone>> = {
  waiting: 'neutral',
  running: 'accent',
  done: 'good',
  failed: 'bad',
  stopped: 'warn',
};
const names: Readonly<Record<Upload['state'], string>> = {
  waiting: w.waiting,
  running: '',
  done: t.ui.done,
  failed: w.failed,
  stopped: w.stopped,
};

export function UploadList({
  bucket,
  isOverwriting,
}: {
  readonly bucket: string;
  readonly isOverwriting: boolean;
}) {
  const uploads = useUploads(bucket);
  if (uploads.length === 0) return null;
  return (
    <Card title={w.uploads} actions={<Button onClick={() => clearUploads(bucket)}>{w.clear}</Button>}>
      <ul class="uploads">
        {uploads.map((upload) => (
          <UploadLine key={upload.id} upload={upload} isOverwriting={isOverwriting} />
        ))}
      </ul>
    </Card>
  );
}

function UploadLine({ upload, isOverwriting }: { readonly upload: Upload; readonly isOverwriting: boolean }) {
  const { state, key, file, sent, startedAt, error } = upload;
  const name = visible(nameOf(key));
  const seconds = (Date.now() - startedAt) / 1_000;
  const exists = error instanceof Refused && error.status === 412;
  const isOpen = state === 'waiting' || state === 'running';
  return (
    <li class="line">
      <div class="line-body">
        {state === 'running' ? (
          <Progress
            label={name}
            done={sent}
            total={file.size}
            unit="bytes"
            {...(seconds > 1 ? { perSecond: sent / seconds } : {})}
          />
        ) : (
          <>
            <bdi class="cut">{name}</bdi>
            <Chip tone={tones[state]}>{names[state]}</Chip>
          </>
        )}
        {exists && <span>{w.exists}</span>}
      </div>
      {isOpen && <Button onClick={() => stopUpload(upload)}>{w.stop}</Button>}
      {(state === 'failed' || state === 'stopped') && (
        <Button onClick={() => retryUpload(upload, isOverwriting)}>{t.ui.retry}</Button>
      )}
      {state === 'failed' && !exists && <Failure error={error} />}
    </li>
  );
}
