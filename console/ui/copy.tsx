/** A text that is copied with one click: ids, ETags, keys. */
import { useEffect, useState } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Icon } from './icons.tsx';

interface CopyProps {
  readonly text: string;
  /** What is shown instead of the text itself. */
  readonly shown?: string;
}

export function Copy({ text, shown = text }: CopyProps) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    await copyText(text);
    setCopied(true);
  };
  return (
    <button
      type="button"
      class="copy"
      title={text}
      aria-label={`${t.ui.copy}: ${text}`}
      onClick={() => copy().catch(() => {})}
    >
      <span class="code cut" dir="auto">
        {shown}
      </span>
      <Icon name={isCopied ? 'check' : 'copy'} size={14} />
      <span class="visually-hidden" role="status">
        {isCopied ? t.ui.copied : ''}
      </span>
    </button>
  );
}

/** Without TLS a browser offers no clipboard, but it still copies a selection. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'visually-hidden';
  const host = document.querySelector('dialog[open]') ?? document.body;
  host.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
