/**
 * The virtual MFA devices of a user or of the caller: a new one with its secret, which is shown once, and the two codes that enable it;
 * resynchronization, deactivation, and devices that were created and never enabled.
 */
import { useState } from 'preact/hooks';
import { useSearchState } from '../app/url.ts';
import { words } from '../text/text.ts';
import { Chip } from './chip.tsx';
import { Confirm } from './confirm.tsx';
import { Copy } from './copy.tsx';
import { Button, Form, TextField } from './form.tsx';
import { Icon } from './icons.tsx';
import { useUnsaved } from './unsaved.ts';
import { Count, Time } from './values.tsx';

const w = words({
  en: {
    none: 'No MFA device is enabled.',
    purpose:
      'MFA delete, and policies with aws:MultiFactorAuthPresent, ask for its codes. The log-in of this console does not.',
    enabled: 'enabled',
    unassigned: 'not enabled',
    created: 'created',
    add: 'Add MFA device',
    name: 'Name of the device',
    nameHint: 'One name in the account, such as phone-of-ann.',
    create: 'Create secret',
    secretTitle: 'Secret of the device',
    warning:
      'Give the secret to an authenticator app now. It is shown this once, and nothing can read it again.',
    secret: 'Secret',
    address: 'Address for apps',
    code1: 'First code',
    code2: 'Next code',
    codesHint: 'Six digits: a code of the app, and the one that it shows after it.',
    enable: 'Enable',
    resync: 'Resynchronize',
    resyncText: 'For an app whose clock is off by up to ten minutes.',
    resynced: (name: string) => `${name} is resynchronized.`,
    deactivate: 'Deactivate',
    deactivateAsk: (name: string) => `Deactivate ${name}?`,
    deactivateText:
      'Its codes are refused at once, and its secret is deleted. Sessions that began with a code go on until they end.',
    remove: 'Delete',
    removeAsk: (name: string) => `Delete ${name}?`,
    removeText: 'Its secret is deleted. No user has enabled the device.',
    left: 'Devices that stay',
  },
  de: {
    none: 'Kein MFA-Gerät ist eingerichtet.',
    purpose:
      'Nach seinen Codes fragen MFA Delete und Richtlinien mit aws:MultiFactorAuthPresent, nicht die Anmeldung dieser Konsole.',
    enabled: 'eingerichtet',
    unassigned: 'nicht eingerichtet',
    created: 'erstellt',
    add: 'MFA-Gerät hinzufügen',
    name: 'Name des Geräts',
    nameHint: 'Ein Name im Konto, etwa handy-von-anna.',
    create: 'Geheimnis erzeugen',
    secretTitle: 'Geheimnis des Geräts',
    warning:
      'Geben Sie das Geheimnis jetzt einer Authenticator-App. Es wird nur dieses Mal gezeigt, und nichts kann es wieder lesen.',
    secret: 'Geheimnis',
    address: 'Adresse für Apps',
    code1: 'Erster Code',
    code2: 'Nächster Code',
    codesHint: 'Sechs Ziffern: ein Code der App und der, den sie danach zeigt.',
    enable: 'Einrichten',
    resync: 'Abgleichen',
    resyncText: 'Für eine App, deren Uhr bis zu zehn Minuten falsch geht.',
    resynced: (name) => `${name} ist abgeglichen.`,
    deactivate: 'Deaktivieren',
    deactivateAsk: (name) => `${name} deaktivieren?`,
    deactivateText:
      'Seine Codes werden sofort abgelehnt, und sein Geheimnis wird gelöscht. Sitzungen, die mit einem Code begannen, dauern bis zu ihrem Ende.',
    remove: 'Löschen',
    removeAsk: (name) => `${name} löschen?`,
    removeText: 'Sein Geheimnis wird gelöscht. Das Gerät ist für niemanden eingerichtet.',
    left: 'Geräte, die bleiben',
  },
});

interface Device {
  readonly name: string;
  readonly serialNumber: string;
  readonly created: string;
  readonly enabled?: string | undefined;
}

interface Made {
  readonly name: string;
  readonly seed: string;
  readonly uri: string;
}

interface Codes {
  readonly code1: string;
  readonly code2: string;
}

interface MfaDevicesProps {
  readonly devices: readonly Device[];
  /** Devices of the account that no user has enabled, as far as the caller may list them. */
  readonly unassigned: readonly Device[];
  /** The suggestion for the name of a new device. */
  readonly suggested: string;
  /** Absent: not allowed. */
  readonly onCreate?: ((name: string) => Promise<Made>) | undefined;
  readonly onEnable?: ((name: string, codes: Codes) => Promise<unknown>) | undefined;
  readonly onResync?: ((name: string, codes: Codes) => Promise<unknown>) | undefined;
  readonly onDeactivate?: ((name: string) => Promise<unknown>) | undefined;
  /** Of a device that is not enabled. */
  readonly onRemove?: ((name: string) => Promise<unknown>) | undefined;
}

type Asking = { readonly about: string; readonly to: 'deactivate' | 'remove' } | undefined;

/** What the address says is open: `new`, or `enable/` or `resync/` and the name of a device. */
const parameter = 'mfa';

export function MfaDevices(props: MfaDevicesProps) {
  const { devices, unassigned, onCreate, onEnable, onResync, onDeactivate, onRemove } = props;
  const [search, setSearch] = useSearchState();
  const [asking, setAsking] = useState<Asking>();
  const [made, setMade] = useState<Made>();
  const [note, setNote] = useState('');
  const open = made === undefined ? (search[parameter] ?? '') : '';
  const show = (next: string | undefined) => {
    setNote('');
    setSearch({ [parameter]: next }, { push: next !== undefined, keepsForms: true });
  };
  const close = () => show(undefined);
  return (
    <>
      {devices.length === 0 && <p class="quiet">{w.none}</p>}
      <ul class="key-list">
        {[...devices, ...unassigned.filter(({ name }) => name !== made?.name)].map((device) => (
          <li key={device.name}>
            <DeviceLines device={device} {...props} onShow={show} onAsk={setAsking} />
            {open === `resync/${device.name}` && onResync !== undefined && (
              <CodesForm
                submit={w.resync}
                text={w.resyncText}
                onSubmit={async (codes) => {
                  await onResync(device.name, codes);
                  close();
                  setNote(w.resynced(device.name));
                }}
                onCancel={close}
              />
            )}
            {open === `enable/${device.name}` && onEnable !== undefined && device.enabled === undefined && (
              <CodesForm
                submit={w.enable}
                onSubmit={async (codes) => {
                  await onEnable(device.name, codes);
                  close();
                }}
                onCancel={close}
              />
            )}
          </li>
        ))}
      </ul>
      <p class="hint" role="status">
        {note === '' ? w.purpose : note}
      </p>
      {made !== undefined && onEnable !== undefined && (
        <NewSecret
          made={made}
          onEnable={async (codes) => {
            await onEnable(made.name, codes);
            setMade(undefined);
          }}
          onCancel={() => {
            // It stays until the list was read without it: else it would be listed for a moment.
            const end = () => setMade(undefined);
            if (onRemove === undefined) end();
            else onRemove(made.name).then(end, end);
          }}
        />
      )}
      {made === undefined && onCreate !== undefined && onEnable !== undefined && open !== 'new' && (
        <div class="actions">
          <Button icon="plus" onClick={() => show('new')}>
            {w.add}
          </Button>
        </div>
      )}
      {open === 'new' && onCreate !== undefined && onEnable !== undefined && (
        <NewDevice
          suggested={props.suggested}
          onSubmit={async (name) => {
            setMade(await onCreate(name));
            close();
          }}
          onCancel={close}
        />
      )}
      {asking !== undefined && (
        <Confirm
          title={asking.to === 'remove' ? w.removeAsk(asking.about) : w.deactivateAsk(asking.about)}
          text={asking.to === 'remove' ? w.removeText : w.deactivateText}
          impact={
            asking.to === 'remove'
              ? []
              : [[w.left, <Count key="left" value={Math.max(0, devices.length - 1)} />] as const]
          }
          isReversible={false}
          action={asking.to === 'remove' ? w.remove : w.deactivate}
          onConfirm={async () => {
            await (asking.to === 'remove' ? onRemove : onDeactivate)?.(asking.about);
          }}
          onClose={() => setAsking(undefined)}
        />
      )}
    </>
  );
}

interface DeviceLinesProps extends MfaDevicesProps {
  readonly device: Device;
  readonly onShow: (what: string) => void;
  readonly onAsk: (asking: Asking) => void;
}

function DeviceLines({
  device,
  onEnable,
  onResync,
  onDeactivate,
  onRemove,
  onShow,
  onAsk,
}: DeviceLinesProps) {
  const { name, serialNumber, created, enabled } = device;
  return (
    <>
      <div class="key-line">
        <Copy text={serialNumber} shown={name} />
        <span class="key-chips">
          {enabled === undefined ? (
            <Chip tone="neutral" icon="pause">
              {w.unassigned}
            </Chip>
          ) : (
            <Chip tone="good">{w.enabled}</Chip>
          )}
        </span>
      </div>
      <div class="key-line">
        <span class="quiet">
          {enabled === undefined ? w.created : w.enabled} <Time at={enabled ?? created} />
        </span>
        <span class="key-actions">
          {enabled === undefined
            ? [
                onEnable !== undefined && (
                  <Button key="enable" kind="link" onClick={() => onShow(`enable/${name}`)}>
                    {w.enable}
                  </Button>
                ),
                onRemove !== undefined && (
                  <Button key="remove" kind="link" onClick={() => onAsk({ about: name, to: 'remove' })}>
                    {w.remove}
                  </Button>
                ),
              ]
            : [
                onResync !== undefined && (
                  <Button key="resync" kind="link" onClick={() => onShow(`resync/${name}`)}>
                    {w.resync}
                  </Button>
                ),
                onDeactivate !== undefined && (
                  <Button
                    key="deactivate"
                    kind="link"
                    onClick={() => onAsk({ about: name, to: 'deactivate' })}
                  >
                    {w.deactivate}
                  </Button>
                ),
              ]}
        </span>
      </div>
    </>
  );
}

interface NewDeviceProps {
  readonly suggested: string;
  readonly onSubmit: (name: string) => Promise<void>;
  readonly onCancel: () => void;
}

function NewDevice({ suggested, onSubmit, onCancel }: NewDeviceProps) {
  const [name, setName] = useState(suggested);
  return (
    <Form submit={w.create} disabled={name === ''} onSubmit={() => onSubmit(name)} onCancel={onCancel}>
      {(faultOf) => (
        <TextField
          label={w.name}
          value={name}
          onChange={setName}
          hint={w.nameHint}
          fault={faultOf('name')}
          required
          code
        />
      )}
    </Form>
  );
}

interface NewSecretProps {
  readonly made: Made;
  readonly onEnable: (codes: Codes) => Promise<void>;
  /** The device is deleted, because nothing can read its secret again. */
  readonly onCancel: () => void;
}

function NewSecret({ made, onEnable, onCancel }: NewSecretProps) {
  useUnsaved('secret');
  return (
    <section class="secret" aria-label={w.secretTitle}>
      <p>
        <Icon name="key" /> <strong>{w.secretTitle}</strong>
      </p>
      <p role="status">{w.warning}</p>
      {/* Above each other: also on a phone the whole secret is seen. */}
      <dl style={{ display: 'grid', gridTemplateColumns: 'minmax(0, 1fr)', gap: '4px' }}>
        <dt>{w.secret}</dt>
        <dd>
          <Copy text={made.seed} />
        </dd>
        <dt>{w.address}</dt>
        <dd>
          <Copy text={made.uri} />
        </dd>
      </dl>
      <CodesForm submit={w.enable} onSubmit={onEnable} onCancel={onCancel} />
    </section>
  );
}

interface CodesFormProps {
  readonly submit: string;
  readonly text?: string;
  readonly onSubmit: (codes: Codes) => Promise<void>;
  readonly onCancel: () => void;
}

/** Digits as people type them, such as 123 456. */
const readCode = (text: string): string => text.replace(/\s/g, '');

function CodesForm({ submit, text, onSubmit, onCancel }: CodesFormProps) {
  const [first, setFirst] = useState('');
  const [second, setSecond] = useState('');
  const codes = { code1: readCode(first), code2: readCode(second) };
  const isComplete = /^\d{12}$/.test(codes.code1 + codes.code2) && codes.code1.length === 6;
  return (
    <Form submit={submit} disabled={!isComplete} onSubmit={() => onSubmit(codes)} onCancel={onCancel}>
      {(faultOf) => (
        <>
          {text !== undefined && <p class="quiet">{text}</p>}
          <div class="field-pairs">
            <TextField label={w.code1} value={first} onChange={setFirst} fault={faultOf('code1')} code />
            <TextField label={w.code2} value={second} onChange={setSecond} fault={faultOf('code2')} code />
          </div>
          <p class="hint">{w.codesHint}</p>
        </>
      )}
    </Form>
  );
}
