/** The objects that an action of many left as they were, with the reason of each. */
import { t } from '../../text/text.ts';
import { Button } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Card } from '../../ui/tabs.tsx';
import { visible } from './listing.ts';
import type { NotDone } from './remove.ts';

interface NotDoneCardProps {
  readonly title: string;
  readonly failed: readonly NotDone[];
  readonly onClose: () => void;
}

/** Nothing, where all were done. */
export const NotDoneCard = ({ title, failed, onClose }: NotDoneCardProps) =>
  failed.length > 0 && (
    <Card title={title} actions={<Button icon="close" label={t.ui.close} onClick={onClose} />}>
      <ul class="warnings">
        {failed.map(({ key, code, reason }, index) => (
          <li key={index}>
            <Icon name="error" /> <bdi>{visible(key)}</bdi>: {code} <bdi>{reason}</bdi>
          </li>
        ))}
      </ul>
    </Card>
  );
