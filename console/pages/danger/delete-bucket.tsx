/** Deletes an empty bucket; the gateway says what keeps another. */
import { useNavigate } from '@tanstack/react-router';
import { pathOf } from '../../app/pages.ts';
import { useChange } from '../../app/queries.ts';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Bytes, Count, formatCount } from '../../ui/values.tsx';
import type { DangerProps } from './danger.tsx';
import { Part } from './part.tsx';
import { w } from './words.ts';

export function DeleteBucket({ bucket: { name, objects, bytes } }: DangerProps) {
  const remove = useChange('DeleteBucket', ['ListBuckets']);
  const navigate = useNavigate();
  return (
    <Part
      title={w.delete}
      text={w.deleteText}
      action={
        <ConfirmButton
          kind="danger"
          title={w.deleteAsk(name)}
          text={objects > 0 ? `${w.deleteText} ${w.notEmpty(formatCount(objects))}` : w.deleteText}
          impact={[
            [w.objects, <Count key="objects" value={objects} />],
            [w.bytes, <Bytes key="bytes" value={bytes} />],
          ]}
          typed={name}
          action={w.delete}
          onConfirm={async () => {
            await remove.mutateAsync({ path: { name } });
            await navigate({ to: pathOf('buckets') as '.' });
          }}
        />
      }
    />
  );
}
