/** Dialogs before work on many objects: what is chosen in numbers, where it goes, and what happens to what is there. */
import { useEffect, useState } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { Confirm } from '../../ui/confirm.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { type Fact, Facts } from '../../ui/facts.tsx';
import { CheckField, Form, TextField } from '../../ui/form.tsx';
import { Segments } from '../../ui/segments.tsx';
import { Failure } from '../../ui/states.tsx';
import { Bytes, Count } from '../../ui/values.tsx';
import { measure, objectsOf, startArchive, startDeletion, startTransfer, type Totals } from './jobs.ts';
import { type Entry, isObject, nameOf, visible } from './listing.ts';
import { wordsOfJobs as w } from './words.ts';
import { canStream, collectedMax } from './zip.ts';

export type Action = 'transfer' | 'rename' | 'delete' | 'zip';

interface ActionDialogProps {
  readonly action: Action;
  readonly bucket: string;
  /** The level at which the entries were chosen. */
  readonly prefix: string;
  readonly entries: readonly Entry[];
  /** Undefined where the caller may not read it. */
  readonly versioning: string | undefined;
  readonly onStarted: () => void;
  readonly onClose: () => void;
}

export function ActionDialog(props: ActionDialogProps) {
  const counted = useTotals(props);
  const given = { ...props, counted };
  if (props.action === 'delete') return <Deletion {...given} />;
  if (props.action === 'zip') return <Archive {...given} />;
  return props.action === 'rename' ? <Rename {...given} /> : <Transfer {...given} />;
}

interface Counted {
  readonly soFar: Totals;
  readonly total: Totals | undefined;
  readonly error: unknown;
}

interface CountedProps extends ActionDialogProps {
  readonly counted: Counted;
}

/** Lists what is below the chosen prefixes. It ends with the dialog. */
function useTotals({ bucket, entries }: ActionDialogProps): Counted {
  const [counted, setCounted] = useState<Counted>({
    soFar: { objects: 0, bytes: 0 },
    total: undefined,
    error: undefined,
  });
  useEffect(() => {
    const abort = new AbortController();
    const set = (change: Partial<Counted>) => {
      if (!abort.signal.aborted) setCounted((before) => ({ ...before, ...change }));
    };
    measure(objectsOf(bucket, entries, abort.signal), (soFar) => set({ soFar })).then(
      (total) => set({ total }),
      (error: unknown) => set({ error }),
    );
    return () => abort.abort();
  }, [bucket, entries]);
  return counted;
}

const factsOf = ({ soFar, total }: Counted): readonly Fact[] => [
  [w.objects, <Count key="objects" value={soFar.objects} />],
  [w.bytes, <Bytes key="bytes" value={soFar.bytes} />],
  ...(total === undefined ? [[w.counting, '…'] as const] : []),
];

function Deletion({ bucket, entries, versioning, counted, onStarted, onClose }: CountedProps) {
  const isReversible = versioning === 'Enabled';
  const { total } = counted;
  const hasFolders = entries.some(({ is }) => is === 'folder');
  return (
    <Confirm
      title={total === undefined ? w.counting : w.removeAsk(total.objects)}
      text={isReversible ? w.removeMarker : versioning === undefined ? w.removeUnknown : w.removeText}
      impact={factsOf(counted)}
      isReversible={isReversible}
      {...(!isReversible && hasFolders ? { typed: bucket } : {})}
      isDisabled={total === undefined}
      action={w.remove}
      onConfirm={async () => {
        if (counted.error !== undefined) throw counted.error;
        if (total !== undefined) startDeletion({ bucket, entries, total });
        onStarted();
      }}
      onClose={onClose}
    />
  );
}

function Archive({ bucket, prefix, entries, counted, onStarted, onClose }: CountedProps) {
  const { total, error } = counted;
  const isTooLarge = !canStream && (total?.bytes ?? 0) > collectedMax;
  return (
    <Dialog title={w.zipTitle} onClose={onClose}>
      <Form
        submit={w.zip}
        disabled={total === undefined || isTooLarge}
        onSubmit={async () => {
          if (total !== undefined) startArchive({ bucket, prefix, entries, total });
          onStarted();
          onClose();
        }}
        onCancel={onClose}
      >
        {() => (
          <>
            <p>{canStream ? w.zipText : w.zipCollected}</p>
            <Facts facts={factsOf(counted)} />
            {isTooLarge && <p class="fault">{w.zipTooLarge}</p>}
            {error !== undefined && <Failure error={error} />}
          </>
        )}
      </Form>
    </Dialog>
  );
}

/** Keys that are made while the prefix itself is listed would be copied again, without an end. */
const isInside = (entries: readonly Entry[], toKey: (key: string) => string): boolean =>
  entries.some(({ is, key }) => is === 'folder' && toKey(key).startsWith(key));

function Transfer({ bucket, prefix, entries, counted, onStarted, onClose }: CountedProps) {
  const [kind, setKind] = useState<'copy' | 'move'>('copy');
  const [toBucket, setBucket] = useState(bucket);
  const [toPrefix, setPrefix] = useState(prefix);
  const [isOverwriting, setOverwriting] = useState(false);
  const toKey = (key: string) => toPrefix + key.slice(prefix.length);
  const put = { action: 's3:PutObject', bucket: toBucket, key: `${toPrefix}x` };
  const remove = { action: 's3:DeleteObject', bucket, key: `${prefix}x` };
  const allowed = useAllowed(toBucket === '' ? [remove] : [put, remove]);
  const fault =
    allowed(put) === false
      ? w.mayNotWrite
      : toBucket === bucket && (toPrefix === prefix || isInside(entries, toKey))
        ? w.intoItself
        : undefined;
  const { total, error } = counted;
  const kinds = [['copy', w.copy] as const, ...(allowed(remove) === true ? [['move', w.move] as const] : [])];
  return (
    <Dialog title={w.transferTitle(entries.length)} onClose={onClose}>
      <Form
        submit={kind === 'copy' ? w.copy : w.move}
        disabled={total === undefined || fault !== undefined || toBucket === ''}
        onSubmit={async () => {
          if (total !== undefined)
            startTransfer({ kind, bucket, entries, total, toBucket, toKey, isOverwriting });
          onStarted();
          onClose();
        }}
        onCancel={onClose}
      >
        {() => (
          <>
            <Segments
              label={w.transferTitle(entries.length)}
              value={kind}
              options={kinds}
              onChange={setKind}
            />
            <TextField label={w.toBucket} value={toBucket} onChange={setBucket} code />
            <TextField
              label={w.toPrefix}
              hint={w.toPrefixHint}
              value={toPrefix}
              onChange={setPrefix}
              fault={fault}
              code
            />
            <CheckField label={w.overwrite} value={isOverwriting} onChange={setOverwriting} />
            <Facts facts={factsOf(counted)} />
            {kind === 'move' && <p class="quiet">{w.moveText}</p>}
            {error !== undefined && <Failure error={error} />}
          </>
        )}
      </Form>
    </Dialog>
  );
}

function Rename({ bucket, prefix, entries, counted, onStarted, onClose }: CountedProps) {
  const [entry] = entries;
  const before = entry === undefined ? '' : nameOf(entry.key);
  const [name, setName] = useState(before);
  const { total, error } = counted;
  if (entry === undefined) return null;
  const end = isObject(entry) || name.endsWith('/') ? '' : '/';
  const target = prefix + name + end;
  const toKey = (key: string) => target + key.slice(entry.key.length);
  const fault = isInside(entries, toKey) && target !== entry.key ? w.intoItself : undefined;
  return (
    <Dialog title={w.renameTitle(visible(before))} onClose={onClose}>
      <Form
        submit={w.rename}
        disabled={total === undefined || name === '' || target === entry.key || fault !== undefined}
        onSubmit={async () => {
          if (total !== undefined)
            startTransfer({
              kind: 'move',
              bucket,
              entries,
              total,
              toBucket: bucket,
              toKey,
              isOverwriting: false,
            });
          onStarted();
          onClose();
        }}
        onCancel={onClose}
      >
        {() => (
          <>
            <TextField
              label={w.newName}
              hint={w.newNameHint}
              value={name}
              onChange={setName}
              fault={fault}
              code
            />
            <Facts facts={factsOf(counted)} />
            <p class="quiet">{w.moveText}</p>
            {error !== undefined && <Failure error={error} />}
          </>
        )}
      </Form>
    </Dialog>
  );
}
