/** The editor of a configuration: its document as JSON, a dry run before each save, the refusals at their lines, and its removal. */
import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'preact/hooks';
import type { Json } from '../../../src/base/text/strict-json.ts';
import type { ConfigurationFamily } from '../../../src/protocol/schemas/families.ts';
import { type Answer, call } from '../../app/client.ts';
import { t } from '../../text/text.ts';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Button, Field, Form } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Failure } from '../../ui/states.tsx';
import { Fields } from './fields.tsx';
import { lineAt, placeOf, placesOf } from './places.ts';
import { samples } from './samples.ts';
import { w } from './words.ts';

export interface EditorProps {
  readonly bucket: string;
  readonly family: ConfigurationFamily;
  /** Of a family with ids. */
  readonly id?: string;
  /** What is set; undefined: nothing. */
  readonly stored: unknown;
  readonly mayPut: boolean;
  readonly mayRemove: boolean;
  readonly mayReadSchema: boolean;
  readonly onRemoved: () => void;
}

type Written = Answer<'PutBucketConfiguration'>;
type Refusal = Written['refusals'][number];

const write = (document: unknown): string => JSON.stringify(document, null, 2);

const firstText = ({ family, stored, bucket, id = '' }: EditorProps): string =>
  write(stored ?? (family === 'acl' ? {} : samples[family](bucket, id)));

/** The compiler does not get to the end of the type of any JSON in the body of a request. */
const putDocument = call as unknown as (
  name: 'PutBucketConfiguration' | 'PutBucketConfigurationEntry',
  ask: object,
) => Promise<Written>;

const put = ({ bucket, family, id }: EditorProps, body: Json, isDryRun: boolean) => {
  const query = isDryRun ? { 'dry-run': true } : {};
  return id === undefined
    ? putDocument('PutBucketConfiguration', { path: { name: bucket, family }, query, body })
    : putDocument('PutBucketConfigurationEntry', { path: { name: bucket, family, id }, query, body });
};

const remove = ({ bucket, family, id }: EditorProps) =>
  id === undefined
    ? call('DeleteBucketConfiguration', { path: { name: bucket, family } })
    : call('DeleteBucketConfigurationEntry', { path: { name: bucket, family, id } });

/** A text that is not JSON has its fault from the browser, with its place where it names one. */
function parse(text: string): { readonly body: Json } | { readonly fault: string } {
  try {
    return { body: JSON.parse(text) as Json };
  } catch (cause) {
    return { fault: String(cause instanceof Error ? cause.message : cause) };
  }
}

type Outcome =
  | { readonly is: 'edited' }
  | { readonly is: 'sound' | 'saved' }
  | { readonly is: 'failed'; readonly cause: unknown }
  | { readonly is: 'no-json'; readonly fault: string }
  | { readonly is: 'refused'; readonly refusals: readonly Refusal[]; readonly text: string };

export function Editor(props: EditorProps) {
  const { family, stored, mayPut, mayRemove, mayReadSchema } = props;
  const client = useQueryClient();
  const [text, setText] = useState(() => firstText(props));
  const [outcome, setOutcome] = useState<Outcome>({ is: 'edited' });
  const area = useRef<HTMLTextAreaElement>(null);
  /** @returns the document, where the gateway would take it */
  const check = async (): Promise<Json | undefined> => {
    const parsed = parse(text);
    if ('fault' in parsed) {
      setOutcome({ is: 'no-json', fault: parsed.fault });
      return undefined;
    }
    const { refusals } = await put(props, parsed.body, true);
    setOutcome(refusals.length === 0 ? { is: 'sound' } : { is: 'refused', refusals, text });
    return refusals.length === 0 ? parsed.body : undefined;
  };
  const save = async () => {
    const body = await check();
    if (body === undefined) return;
    await put(props, body, false);
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
            <Said outcome={outcome} onShow={show} />
          </>
        )}
      </Form>
      {mayReadSchema && <Fields family={family} />}
      {mayRemove && stored !== undefined && <Remove {...props} />}
    </>
  );
}

const readAgain = (client: ReturnType<typeof useQueryClient>) =>
  Promise.all(
    ['ListBucketConfigurations', 'GetBucket', 'ListBuckets'].map((name) =>
      client.invalidateQueries({ queryKey: [name] }),
    ),
  );

function Said({ outcome, onShow }: { readonly outcome: Outcome; readonly onShow: (offset: number) => void }) {
  if (outcome.is === 'sound' || outcome.is === 'saved')
    return (
      <p class="tone-good" role="status">
        <Icon name="check" /> {outcome.is === 'sound' ? w.sound : w.saved}
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
  const { family, id } = props;
  const client = useQueryClient();
  return (
    <div class="actions">
      <ConfirmButton
        icon="trash"
        title={w.resetAsk(id ?? family)}
        text={w.resetText}
        action={w.reset}
        onConfirm={async () => {
          await remove(props);
          await readAgain(client);
          props.onRemoved();
        }}
      />
    </div>
  );
}
