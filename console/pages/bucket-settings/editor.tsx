/**
 * The editor of a configuration: its document as a form, as JSON and as XML, a dry run before each save, the refusals
 * at their lines, and its removal.
 */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { Ref, RefObject } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { ConfigurationFamily } from '../../../src/protocol/schemas/families.ts';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Diff } from '../../ui/diff.tsx';
import { Button, Form, TextField } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Segments } from '../../ui/segments.tsx';
import { StaleNotice, useStaleCheck } from '../../ui/stale.tsx';
import { Failure, Reading } from '../../ui/states.tsx';
import { Fields } from './fields.tsx';
import { lineAt, placeOf, placesOf, xmlPlaceOf } from './places.ts';
import { samples } from './samples.ts';
import { focusPart, SchemaForm } from './schema-form.tsx';
import type { DocumentStore, Refusal } from './stores.ts';
import { w } from './words.ts';
import { XmlArea } from './xml-area.tsx';

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

/** '' where nothing is set. */
const writeStored = (stored: unknown): string => (stored === undefined ? '' : write(stored));

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

type View = 'form' | 'json' | 'xml';

/** In the address. A policy begins as JSON, because policies are copied as a whole. */
function useView({ family, mayReadSchema }: EditorProps) {
  const [search, setSearch] = useSearchState();
  const all: readonly View[] = [
    ...(mayReadSchema ? (['form'] as const) : []),
    'json',
    ...(family === 'policy' ? [] : (['xml'] as const)),
  ];
  const first = mayReadSchema && family !== 'policy' ? 'form' : 'json';
  const view = all.find((each) => each === search['view']) ?? first;
  return { all, view, setView: (next: View) => setSearch({ view: next }, { keepsForms: true }) };
}

interface Areas {
  readonly view: View;
  /** The document as the area of the XML shows it. */
  readonly xml: string;
  readonly form: RefObject<HTMLDivElement | null>;
  readonly area: RefObject<HTMLTextAreaElement | null>;
}

/** Where the parts of a document that was checked are in the view, and how the focus gets there. */
function placesIn(checked: string, { view, xml, form, area }: Areas) {
  if (view === 'form') return (path: string) => ({ name: w.goTo, show: () => focusPart(form.current, path) });
  const places = placesOf(checked);
  const show = (offset: number) => {
    area.current?.focus();
    area.current?.setSelectionRange(offset, offset);
  };
  return (path: string) => {
    const offset = view === 'xml' ? xmlPlaceOf(xml, path) : placeOf(places, path);
    const line = lineAt(view === 'xml' ? xml : checked, offset);
    return { name: w.line(line), show: () => show(offset) };
  };
}

export function Editor(props: EditorProps) {
  const { family, stored, store, mayPut, mayRemove, mayReadSchema } = props;
  const client = useQueryClient();
  const { all: views, view, setView } = useView(props);
  const xml = useRef('');
  const form = useRef<HTMLDivElement>(null);
  const [hasXmlFault, setXmlFault] = useState(false);
  const [text, setText] = useState(() => firstText(props));
  /** The text that was opened or saved last. */
  const [clean, setClean] = useState(text);
  const [outcome, setOutcome] = useState<Outcome>({ is: 'edited' });
  const area = useRef<HTMLTextAreaElement>(null);
  const current = useStaleCheck(writeStored(stored), true);
  const { base, isStale } = current;
  const readStored = async () => writeStored(await store.read());
  /** @returns whether the gateway would take the document, as far as the store can tell */
  const check = async (): Promise<boolean> => {
    // The area of the XML shows it.
    if (view === 'xml' && hasXmlFault) return false;
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
    if (!(await check())) return false;
    setOutcome({ is: 'edited' });
    if (!(await current.isCurrent(readStored))) return false;
    await store.save(text);
    // The gateway may write the document in another way.
    current.rebase(await readStored().catch(() => text));
    setClean(text);
    setOutcome({ is: 'saved' });
    await readAgain(client);
    return true;
  };
  const edit = (next: string) => {
    setText(next);
    setOutcome({ is: 'edited' });
  };
  const takeStored = (now: string) => {
    const next = now === '' ? firstText({ ...props, stored: undefined }) : now;
    edit(next);
    setClean(next);
  };
  const placeIn = (checked: string) => placesIn(checked, { view, xml: xml.current, form, area });
  return (
    <>
      {base === '' && mayPut && <p class="quiet">{w.sample}</p>}
      {!mayPut && <p class="quiet">{w.readOnly}</p>}
      <Segments
        label={w.view}
        value={view}
        options={views.map((each) => [each, w.views[each]] as const)}
        onChange={(next) => {
          setXmlFault(false);
          setView(next);
        }}
      />
      <Form
        submit={t.ui.save}
        disabled={!mayPut}
        onSubmit={save}
        isChanged={text !== clean}
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
            {view === 'form' && (
              <div ref={form}>
                <FormArea {...props} text={text} outcome={outcome} onChange={edit} />
              </div>
            )}
            {view === 'json' && (
              <JsonArea text={text} outcome={outcome} area={area} isReadOnly={!mayPut} onChange={edit} />
            )}
            {view === 'xml' && (
              <XmlArea
                family={family}
                text={text}
                stored={base === '' || !mayPut ? undefined : base}
                area={area}
                xmlRef={xml}
                isReadOnly={!mayPut}
                onChange={(read) => {
                  setXmlFault('fault' in read);
                  if ('text' in read) edit(read.text);
                  else setOutcome({ is: 'edited' });
                }}
              />
            )}
            {isStale && <StaleNotice check={current} onReload={takeStored} />}
            {view !== 'xml' && base !== '' && mayPut && <Diff before={base} after={text} />}
            <Said outcome={outcome} sound={store.sound} placeIn={placeIn} />
          </>
        )}
      </Form>
      {mayReadSchema && view !== 'form' && <Fields family={family} readSchema={store.readSchema} />}
      {mayRemove && stored !== undefined && <Remove {...props} />}
    </>
  );
}

interface JsonAreaProps {
  readonly text: string;
  readonly outcome: Outcome;
  readonly area: Ref<HTMLTextAreaElement>;
  readonly isReadOnly: boolean;
  readonly onChange: (text: string) => void;
}

const JsonArea = ({ text, outcome, area, isReadOnly, onChange }: JsonAreaProps) => (
  <TextField
    label={w.document}
    value={text}
    fault={outcome.is === 'no-json' ? outcome.fault : undefined}
    lines={16}
    code
    readonly={isReadOnly}
    areaRef={area}
    onChange={onChange}
  />
);

interface FormAreaProps extends EditorProps {
  readonly text: string;
  readonly outcome: Outcome;
  readonly onChange: (text: string) => void;
}

function FormArea({ family, store, mayPut, text, outcome, onChange }: FormAreaProps) {
  const schema = useQuery({ queryKey: ['schema', family], queryFn: store.readSchema });
  if (faultOf(text) !== undefined) return <p class="quiet">{w.notJson}</p>;
  const refusals = outcome.is === 'refused' ? outcome.refusals : [];
  return (
    <Reading query={schema} rows={6}>
      {(found) => (
        <SchemaForm
          schema={found}
          value={JSON.parse(text)}
          onChange={(value) => onChange(write(value))}
          faults={new Map(refusals.toReversed().map(({ path, message }) => [path, message]))}
          isReadOnly={!mayPut}
        />
      )}
    </Reading>
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
  /** Names the place of a part in the text that was checked, and shows it. */
  readonly placeIn: (text: string) => (path: string) => { readonly name: string; show(): void };
}

function Said({ outcome, sound, placeIn }: SaidProps) {
  if (outcome.is === 'sound' || outcome.is === 'saved')
    return (
      <p class="tone-good" role="status">
        <Icon name="check" /> {outcome.is === 'sound' ? sound : w.saved}
      </p>
    );
  if (outcome.is === 'failed') return <Failure error={outcome.cause} />;
  if (outcome.is !== 'refused') return null;
  const { refusals, text } = outcome;
  const placeAt = placeIn(text);
  return (
    <div class="refusals" role="alert">
      <p class="fault">
        <Icon name="error" /> {w.refused(refusals.length)}
      </p>
      <ul class="plain">
        {refusals.map(({ path, code, message, right }, index) => {
          const place = placeAt(path);
          return (
            <li key={`${path} ${index}`}>
              <Button kind="link" onClick={place.show}>
                {place.name}
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
