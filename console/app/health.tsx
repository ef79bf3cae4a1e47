/** The health of storage on every page: the dot of the top bar, and the banner with its warnings. */
import { useState } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Button } from '../ui/form.tsx';
import { Icon } from '../ui/icons.tsx';
import { PageLink } from './page-link.tsx';
import { useAdmin } from './queries.ts';
import { readStored, writeStored } from './stored.ts';

const everyMs = 30_000;

export const useHealth = (enabled: boolean) => useAdmin('GetStorageHealth', {}, { everyMs, enabled });

/** A new warning, or one less, is another condition and is shown again. */
export const signatureOf = ({
  source,
  warnings,
}: {
  readonly source: string;
  readonly warnings: readonly string[];
}) => `${source}|${[...warnings].sort().join('\n')}`;

export function HealthDot({ enabled }: { readonly enabled: boolean }) {
  const { data, isError } = useHealth(enabled);
  if (!enabled || (data === undefined && !isError)) return null;
  const [tone, icon, text] =
    data === undefined || isError
      ? (['neutral', 'info', t.shell.unknownHealth] as const)
      : data.ok
        ? (['good', 'check', t.shell.healthy] as const)
        : (['bad', 'warning', t.shell.unhealthy(data.warnings.length)] as const);
  return (
    <PageLink page="storage" class={`health tone-${tone}`} title={text}>
      <Icon name={icon} />
      <span class="health-text">{text}</span>
    </PageLink>
  );
}

const shownMax = 3;

export function HealthBanner({ enabled }: { readonly enabled: boolean }) {
  const { data } = useHealth(enabled);
  const [dismissed, setDismissed] = useState(() => readStored('banner'));
  if (!enabled || data === undefined || data.ok) return null;
  const signature = signatureOf(data);
  if (dismissed === signature) return null;
  const dismiss = () => {
    writeStored('banner', signature);
    setDismissed(signature);
  };
  const { source, warnings } = data;
  return (
    <div class="banner" role="status">
      <Icon name="warning" size={20} />
      <div class="banner-text">
        <strong>{t.banner.title(warnings.length)}</strong>
        <span class="quiet"> {t.banner.source(source)}</span>
        <ul>
          {warnings.slice(0, shownMax).map((warning) => (
            <li key={warning}>{warning}</li>
          ))}
        </ul>
        {warnings.length > shownMax && <span class="quiet">{t.banner.more(warnings.length - shownMax)}</span>}
      </div>
      <PageLink page="storage" class="button">
        {t.banner.open}
      </PageLink>
      <Button icon="close" label={t.banner.dismiss} onClick={dismiss} />
    </div>
  );
}
