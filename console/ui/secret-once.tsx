/** A new access key with its secret, which the gateway shows once: it lives in the memory of the component, and is gone with it. */
import { words } from '../text/text.ts';
import { Copy } from './copy.tsx';
import { Button } from './form.tsx';
import { Icon } from './icons.tsx';
import { useUnsaved } from './unsaved.ts';

const w = words({
  en: {
    title: 'New access key',
    warning: 'Store the secret now. It is shown this once, and nothing can read it again.',
    accessKey: 'Access key',
    secretKey: 'Secret key',
    done: 'I have stored it',
  },
  de: {
    title: 'Neuer Zugriffsschlüssel',
    warning:
      'Bewahren Sie das Geheimnis jetzt auf. Es wird nur dieses Mal gezeigt, und nichts kann es wieder lesen.',
    accessKey: 'Zugriffsschlüssel',
    secretKey: 'Geheimer Schlüssel',
    done: 'Ich habe es aufbewahrt',
  },
});

export interface NewKey {
  readonly accessKey: string;
  readonly secretKey: string;
}

export function SecretOnce({ made, onDone }: { readonly made: NewKey; readonly onDone: () => void }) {
  const setUnsaved = useUnsaved('secret');
  return (
    <section class="secret" role="status" aria-label={w.title}>
      <p>
        <Icon name="key" /> <strong>{w.title}</strong>
      </p>
      <p>{w.warning}</p>
      <dl class="secret-pair">
        <dt>{w.accessKey}</dt>
        <dd>
          <Copy text={made.accessKey} />
        </dd>
        <dt>{w.secretKey}</dt>
        <dd>
          <Copy text={made.secretKey} />
        </dd>
      </dl>
      <div class="actions">
        <Button
          kind="primary"
          onClick={() => {
            setUnsaved(undefined);
            onDone();
          }}
        >
          {w.done}
        </Button>
      </div>
    </section>
  );
}
