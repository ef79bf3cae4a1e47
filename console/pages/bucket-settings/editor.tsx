/** The editor of a configuration: its document as JSON, a dry run before each save, the refusals at their lines, and its removal. */
import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'preact/hooks';
import type { ConfigurationFamily } from '../../../src/protocol/schemas/families.ts';
import { t } from '../../text/text.ts';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Button, Field, Form } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Failure } from '../../ui/states.tsx';
import { Diff } from './diff.tsx';
import { Fields } from './fields.tsx';
import { lineAt, placeOf, placesOf } from './places.ts';
import { samples } from './samples.ts';
import type { DocumentStore, Refusal } from './stores.ts';
import { w } from './words.ts';

export interface EditorProps {
  readonly bucket: string;
  readonly family: ConfigurationFamily;
  /** Of a family with ids. */
  readonly id?: string;
  /** What is set; undefined: nothing. */
  readonly stored: unknown;
  readonly store: DocumentStore;
  readonly mayPut: boolean;
  readonly mayRemove: boolean;
  readonly mayReadSchema: boolean;
  readonly onRemoved: () => void;
}

const write = (document: unknown): string => JSON.stringify(document, null, 2);

const firstText = ({ family, stored, bucket, id = '' }: EditorProps): string =>
  write(stored ?? (family === 'acl' ? {} : samples[family](bucket, id)));

/** A text that is not JSON has its fault from the browser, with its place where it names one. */
function faultOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (cause) {
    return String(cause instanceof Error ? cause.message : cause);
  }
}

type Outcome =
  | { readonly is: 'edited' }
  | { readonly is: 'sound' | 'saved' }
  | { readonly is: 'failed'; readonly cause: unknown }
  | { readonly is: 'no-json'; readonly fault: string }
  | { readonly is: 'refused'; readonly refusals: readonly Refusal[]; readonly text: string };

export function Editor(props: EditorProps) {
  const { family, stored, store, mayPut, mayRemove, mayReadSchema } = props;
  const client = useQueryClient();
  const [text, setText] = useState(() => firstText(props));
  const [outcome, setOutcome] = useState<Outcome>({ is: 'edited' });
  const area = useRef<HTMLTextAreaElement>(null);
  /** @returns whether the gateway would take the document, as far as the store can tell */
  const check = async (): Promise<boolean> => {
    const fault = faultOf(text);
    if (fault !== undefined) {
      setOutcome({ is: 'no-json', fault });
      return false;
    }
    const refusals = await store.check(text);
    setOutcome(refusals.length === 0 ? { is: 'sound' } : { is: 'refused', refusals, text });
    return refusals.length === 0;
  };
  const save = async () => {
    if (!(await check())) return;
    setOutcome({ is: 'edited' });
    await store.save(text);
    setOutcome({ is: 'saved' });
    await readAgain(client);
  };
  const show = (offset: number) => {
    area.current?.focus();
    area.current?.setSelectionRange(offset, offset);
  };
  return (
    <>
      {stored === undefined && outcome.is !== 'saved' && mayPut && <p class="quiet">{w.sample}</p>}
      {!mayPut && <p class="quiet">{w.readOnly}</p>}
      <Form
        submit={t.ui.save}
        disabled={!mayPut}
        onSubmit={save}
        tools={
          mayPut && (
            <Button
              onClick={() => void check().catch((cause: unknown) => setOutcome({ is: 'failed', cause }))}
            >
              {w.check}
            </Button>
          )
        }
      >
        {() => (
          <>
            <Field label={w.document} fault={outcome.is === 'no-json' ? outcome.fault : undefined}>
              {(control) => (
                <textarea
                  {...control}
                  ref={area}
                  class="input code"
                  rows={16}
                  spellcheck={false}
                  readOnly={!mayPut}
                  value={text}
                  onInput={(event) => {
                    setText(event.currentTarget.value);
                    setOutcome({ is: 'edited' });
                  }}
                />
              )}
            </Field>
            {stored !== undefined && mayPut && <Diff before={write(stored)} after={text} />}
            <Said outcome={outcome} sound={store.sound} onShow={show} />
          </>
        )}
      </Form>
      {mayReadSchema && <Fields family={family} readSchema={store.readSchema} />}
      {mayRemove && stored !== undefined && <Remove {...props} />}
    </>
  );
}

const readAgain = (client: ReturnType<typeof useQueryClient>) =>
  Promise.all(
    ['ListBucketConfigurations', 'GetBucket', 'ListBuckets', 's3'].map((name) =>
      client.invalidateQueries({ queryKey: [name] }),
    ),
  );

interface SaidProps {
  readonly outcome: Outcome;
  readonly sound: string;
  readonly onShow: (offset: number) => void;
}

function Said({ outcome, sound, onShow }: SaidProps) {
  if (outcome.is === 'sound' || outcome.is === 'saved')
    return (
      <p class="tone-good" role="status">
        <Icon name="check" /> {outcome.is === 'sound' ? sound : w.saved}
      </p>
    );
  if (outcome.is === 'failed') return <Failure error={outcome.cause} />;
  if (outcome.is !== 'refused') return null;
  const { refusals, text } = outcome;
  const places = placesOf(text);
  return (
    <div class="refusals" role="alert">
      <p class="fault">
        <Icon name="error" /> {w.refused(refusals.length)}
      </p>
      <ul class="plain">
        {refusals.map(({ path, code, message, right }, index) => {
          const offset = placeOf(places, path);
          return (
            <li key={`${path} ${index}`}>
              <Button kind="link" onClick={() => onShow(offset)}>
                {w.line(lineAt(text, offset))}
              </Button>{' '}
              <bdi class="code">{path === '' ? w.whole : path}</bdi> <span class="quiet code">{code}</span>
              <p dir="auto">{message}</p>
              {right !== undefined && !message.includes(right) && (
                <p class="quiet" dir="auto">
                  {w.right(right)}
                </p>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function Remove(props: EditorProps) {
  const { family, id, store } = props;
  const client = useQueryClient();
  return (
    <div class="actions">
      <ConfirmButton
        icon="trash"
        title={w.resetAsk(id ?? family)}
        text={w.resetText}
        action={w.reset}
        onConfirm={async () => {
          await store.remove();
          await readAgain(client);
          props.onRemoved();
        }}
      />
    </div>
  );
}
