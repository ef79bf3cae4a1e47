/** The access keys of a user, of a root or of the caller: state, last use, a new one, rotation, deactivation and deletion. */
import { useState } from 'preact/hooks';
import { words } from '../text/text.ts';
import { Chip } from './chip.tsx';
import { Confirm } from './confirm.tsx';
import { Copy } from './copy.tsx';
import { Button } from './form.tsx';
import { type NewKey, SecretOnce } from './secret-once.tsx';
import { Failure } from './states.tsx';
import { Time } from './values.tsx';

const w = words({
  en: {
    none: 'No access key was created.',
    create: 'Create key',
    rotate: 'Rotate',
    active: 'active',
    inactive: 'inactive',
    created: 'created',
    used: 'last used',
    neverUsed: 'no use recorded',
    yours: 'this log-in',
    activate: 'Activate',
    deactivate: 'Deactivate',
    remove: 'Delete',
    removeTitle: (key: string) => `Delete ${key}?`,
    deactivateText: 'Requests that are signed with this key are refused at once.',
    removeText: 'Requests that are signed with this key are refused at once, and the key cannot be restored.',
    ownText: 'It is the key of this log-in, which ends too.',
    rotateText: 'The new key works already. Deactivate the old one when all clients use the new one.',
    rotateTitle: (key: string) => `Deactivate ${key}?`,
  },
  de: {
    none: 'Es wurde kein Zugriffsschlüssel angelegt.',
    create: 'Schlüssel anlegen',
    rotate: 'Wechseln',
    active: 'aktiv',
    inactive: 'inaktiv',
    created: 'erstellt',
    used: 'zuletzt benutzt',
    neverUsed: 'keine Benutzung bekannt',
    yours: 'diese Anmeldung',
    activate: 'Aktivieren',
    deactivate: 'Deaktivieren',
    remove: 'Löschen',
    removeTitle: (key) => `${key} löschen?`,
    deactivateText: 'Anfragen mit diesem Schlüssel werden sofort abgelehnt.',
    removeText:
      'Anfragen mit diesem Schlüssel werden sofort abgelehnt, und er lässt sich nicht wiederherstellen.',
    ownText: 'Es ist der Schlüssel dieser Anmeldung, die damit auch endet.',
    rotateText:
      'Der neue Schlüssel gilt schon. Deaktivieren Sie den alten, wenn alle Clients den neuen benutzen.',
    rotateTitle: (key) => `${key} deaktivieren?`,
  },
});

export interface KeyRow {
  readonly accessKey: string;
  readonly status: string;
  readonly created: string;
  readonly lastUsed?: string | undefined;
}

interface AccessKeysProps {
  readonly keys: readonly KeyRow[];
  /** The key of the log-in. */
  readonly own?: string | undefined;
  /** False where the reply has no last use. */
  readonly hasUse?: boolean;
  /** Absent: not allowed. */
  readonly onCreate?: (() => Promise<NewKey>) | undefined;
  readonly onPut?: ((accessKey: string, status: 'Active' | 'Inactive') => Promise<unknown>) | undefined;
  readonly onRemove?: ((accessKey: string) => Promise<unknown>) | undefined;
}

interface Made {
  readonly made: NewKey;
  /** The key that it replaces. */
  readonly old?: string | undefined;
}

type Asking = { readonly about: string; readonly to: 'deactivate' | 'remove' | 'rotate' } | undefined;

export function AccessKeys({ keys, own, hasUse = true, onCreate, onPut, onRemove }: AccessKeysProps) {
  const [made, setMade] = useState<Made>();
  const [asking, setAsking] = useState<Asking>();
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const run = async (work: () => Promise<unknown>) => {
    setError(undefined);
    setBusy(true);
    try {
      await work();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  };
  const create = (old?: string) =>
    onCreate && run(async () => setMade({ made: await onCreate(), old })).catch(() => {});
  const closeSecret = () => {
    if (made?.old !== undefined && onPut !== undefined) setAsking({ about: made.old, to: 'rotate' });
    setMade(undefined);
  };
  return (
    <>
      {made !== undefined && <SecretOnce made={made.made} onDone={closeSecret} />}
      {keys.length === 0 && <p class="quiet">{w.none}</p>}
      <ul class="key-list">
        {keys.map((key) => (
          <li key={key.accessKey}>
            <div class="key-line">
              <Copy text={key.accessKey} />
              <span class="key-chips">
                {key.status === 'Active' ? (
                  <Chip tone="good">{w.active}</Chip>
                ) : (
                  <Chip tone="neutral" icon="pause">
                    {w.inactive}
                  </Chip>
                )}
                {key.accessKey === own && <Chip tone="accent">{w.yours}</Chip>}
              </span>
            </div>
            <div class="key-line">
              <span class="quiet">
                {w.created} <Time at={key.created} />
                {hasUse && ' · '}
                {hasUse && (key.lastUsed === undefined ? w.neverUsed : w.used)}{' '}
                {key.lastUsed !== undefined && <Time at={key.lastUsed} />}
              </span>
              <span class="key-actions">
                {onCreate !== undefined && key.status === 'Active' && (
                  <Button kind="link" disabled={isBusy} onClick={() => create(key.accessKey)}>
                    {w.rotate}
                  </Button>
                )}
                {onPut !== undefined &&
                  (key.status === 'Active' ? (
                    <Button kind="link" onClick={() => setAsking({ about: key.accessKey, to: 'deactivate' })}>
                      {w.deactivate}
                    </Button>
                  ) : (
                    <Button
                      kind="link"
                      disabled={isBusy}
                      onClick={() => run(() => onPut(key.accessKey, 'Active')).catch(() => {})}
                    >
                      {w.activate}
                    </Button>
                  ))}
                {onRemove !== undefined && (
                  <Button kind="link" onClick={() => setAsking({ about: key.accessKey, to: 'remove' })}>
                    {w.remove}
                  </Button>
                )}
              </span>
            </div>
          </li>
        ))}
      </ul>
      {error !== undefined && <Failure error={error} />}
      {onCreate !== undefined && made === undefined && (
        <div class="actions">
          <Button icon="plus" busy={isBusy} onClick={() => create()}>
            {w.create}
          </Button>
        </div>
      )}
      {asking !== undefined && (
        <Confirm
          title={asking.to === 'remove' ? w.removeTitle(asking.about) : w.rotateTitle(asking.about)}
          text={
            <>
              {{ deactivate: w.deactivateText, remove: w.removeText, rotate: w.rotateText }[asking.to]}{' '}
              {asking.about === own && w.ownText}
            </>
          }
          isReversible={asking.to !== 'remove'}
          action={asking.to === 'remove' ? w.remove : w.deactivate}
          onConfirm={async () => {
            await (asking.to === 'remove' ? onRemove?.(asking.about) : onPut?.(asking.about, 'Inactive'));
          }}
          onClose={() => setAsking(undefined)}
        />
      )}
    </>
  );
}
