/** How files get into the queue: buttons, a drop anywhere on the page, the clipboard. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { isTyping } from '../../app/keys.tsx';
import { t } from '../../text/text.ts';
import { Button, CheckField } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { addUploads } from './queue.ts';
import { chosenFiles, droppedFiles, pickFiles, type Source, TooManyFiles } from './sources.ts';
import { w } from './words.ts';

export interface Uploader {
  readonly isOverwriting: boolean;
  readonly fault: string;
  setOverwriting(isOverwriting: boolean): void;
  /** Adds what was chosen, below the prefix. */
  take(sources: Promise<readonly Source[]> | readonly Source[]): void;
  dismiss(): void;
}

export function useUploader(bucket: string, prefix: string): Uploader {
  const [isOverwriting, setOverwriting] = useState(false);
  const [fault, setFault] = useState('');
  return {
    isOverwriting,
    setOverwriting,
    fault,
    dismiss: () => setFault(''),
    take(sources) {
      setFault('');
      Promise.resolve(sources).then(
        (found) => addUploads(found, { bucket, prefix, isOverwriting }),
        (cause: unknown) =>
          setFault(cause instanceof TooManyFiles ? w.tooMany(Number(cause.message)) : w.unreadable),
      );
    },
  };
}

/** An input that a button opens: its own look differs in every browser. */
export function HiddenInput({
  onFiles,
  children,
  isFolder = false,
  isMultiple = true,
}: {
  readonly onFiles: (sources: readonly Source[]) => void;
  readonly children: (open: () => void) => ComponentChildren;
  readonly isFolder?: boolean;
  readonly isMultiple?: boolean;
}) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        hidden
        type="file"
        multiple={isMultiple}
        {...(isFolder ? { webkitdirectory: true } : {})}
        onChange={(event) => {
          onFiles(chosenFiles(event.currentTarget.files));
          // The same file may be chosen again.
          event.currentTarget.value = '';
        }}
      />
      {children(() => input.current?.click())}
    </>
  );
}

export const UploadButtons = ({ uploader }: { readonly uploader: Uploader }) => (
  <>
    <HiddenInput onFiles={uploader.take}>
      {(open) => (
        <Button
          icon="upload"
          kind="primary"
          onClick={() => {
            const picked = pickFiles();
            if (picked === undefined) open();
            else uploader.take(picked);
          }}
        >
          {w.upload}
        </Button>
      )}
    </HiddenInput>
    <HiddenInput isFolder onFiles={uploader.take}>
      {(open) => (
        <Button icon="folder" title={w.chooseFolder} onClick={open}>
          {w.folder}
        </Button>
      )}
    </HiddenInput>
  </>
);

export const UploadOptions = ({ uploader }: { readonly uploader: Uploader }) => (
  <>
    <CheckField label={w.overwrite} value={uploader.isOverwriting} onChange={uploader.setOverwriting} />
    {uploader.fault !== '' && (
      <p class="failure" role="alert">
        <Icon name="error" size={20} />
        <span class="failure-text">{uploader.fault}</span>
        <Button icon="close" label={t.ui.close} onClick={uploader.dismiss} />
      </p>
    )}
  </>
);

/** Files may be dropped anywhere on the page: a miss would make the browser open the file instead. */
export function UploadZone({
  uploader,
  isOpen,
  children,
}: {
  readonly uploader: Uploader;
  readonly isOpen: boolean;
  readonly children: ComponentChildren;
}) {
  const [isOver, setOver] = useState(false);
  const current = useRef(uploader);
  current.current = uploader;
  useEffect(() => {
    if (!isOpen) return;
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes('Files') !== true) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent) => event.relatedTarget === null && setOver(false);
    const drop = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes('Files') !== true) return;
      event.preventDefault();
      setOver(false);
      current.current.take(droppedFiles(event.dataTransfer));
    };
    const paste = (event: ClipboardEvent) => {
      if (isTyping(event.target) || (event.clipboardData?.files.length ?? 0) === 0) return;
      event.preventDefault();
      if (event.clipboardData !== null) current.current.take(droppedFiles(event.clipboardData));
    };
    addEventListener('dragover', over);
    addEventListener('dragleave', leave);
    addEventListener('drop', drop);
    addEventListener('paste', paste);
    return () => {
      removeEventListener('dragover', over);
      removeEventListener('dragleave', leave);
      removeEventListener('drop', drop);
      removeEventListener('paste', paste);
    };
  }, [isOpen]);
  return (
    <div class={isOver ? 'drop is-over' : 'drop'}>
      {isOver && <p class="drop-words">{w.drop}</p>}
      {children}
    </div>
  );
}
