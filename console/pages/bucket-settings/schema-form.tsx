/** A form for any configuration, generated from its schema: a new family or field has its form without further code. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { formatNumber } from '../../text/text.ts';
import { Button, CheckField, SelectField, TextField } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import type { Schema } from './fields.tsx';
import { describeLimits } from './limits.ts';
import { w } from './words.ts';

/** By the path of a part, such as `Rule[0].Status`. */
export type Faults = ReadonlyMap<string, string>;

interface PartProps {
  readonly schema: Schema;
  readonly value: unknown;
  /** Undefined removes the part. */
  readonly onChange: (value: unknown) => void;
  readonly path: string;
  readonly name: string;
  readonly isRequired: boolean;
  readonly faults: Faults;
  readonly isReadOnly: boolean;
}

type Members = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
/** Where one text stands for a list of it, as in policies, it is such a list. */
const listIn = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : value === undefined ? [] : [value];

type Kind = 'object' | 'list' | 'texts' | 'choices' | 'choice' | 'boolean' | 'integer' | 'text' | 'json';

const isListOfTexts = ({ items }: Schema): boolean => items?.type === 'string' && items.enum === undefined;

/** A list of simple values has one field. A value in another form than the first of its schema is edited as JSON. */
function kindOf(schema: Schema, value?: unknown): Kind {
  const kind = kindOfSchema(schema);
  if (value === undefined) return kind;
  if (kind === 'object' && !isObject(value)) return 'json';
  if (kind === 'list' && !(Array.isArray(value) && value.every(isObject))) return 'json';
  if (kind === 'texts' && !listIn(value).every((each) => typeof each === 'string')) return 'json';
  return kind;
}

function kindOfSchema({ type, enum: choices, properties, items, anyOf }: Schema): Kind {
  if (properties !== undefined) return 'object';
  if (anyOf !== undefined) return anyOf.some(isListOfTexts) ? 'texts' : 'json';
  if (items !== undefined) {
    if (items.enum !== undefined) return 'choices';
    if (items.type === 'string') return 'texts';
    return items.properties === undefined ? 'json' : 'list';
  }
  if (choices !== undefined) return 'choice';
  return type === 'boolean' || type === 'integer' ? type : type === 'string' ? 'text' : 'json';
}

/** What a part begins with that is added: its required parts. */
function firstValue(schema: Schema): unknown {
  const { properties = {}, required = [], items, minItems = 0, enum: choices } = schema;
  switch (kindOf(schema)) {
    case 'object':
      return Object.fromEntries(required.map((name) => [name, firstValue(properties[name] ?? {})]));
    case 'list':
      return Array.from({ length: Math.max(1, minItems) }, () => firstValue(items ?? {}));
    case 'texts':
    case 'choices':
      return [];
    case 'choice':
      return choices?.[0];
    case 'boolean':
      return false;
    case 'integer':
      return schema.minimum !== undefined && schema.minimum > 0 ? schema.minimum : 1;
    case 'text':
      return '';
    case 'json':
      return {};
  }
}

/** Here and not in the style sheets, which every page loads. */
const framed = {
  border: '1px solid var(--line)',
  borderRadius: 'var(--radius)',
  padding: '12px',
  margin: 0,
  minWidth: 0,
};
const legend = { padding: '0 4px', fontWeight: 500 };

interface SchemaFormProps extends Pick<PartProps, 'schema' | 'value' | 'faults' | 'isReadOnly'> {
  readonly onChange: (value: unknown) => void;
}

export const SchemaForm = (props: SchemaFormProps) => (
  <div class="stack">
    <Fault text={props.faults.get('')} />
    <Parts {...props} path="" />
  </div>
);

const Fault = ({ text }: { readonly text: string | undefined }) =>
  text === undefined ? null : (
    <p class="fault" dir="auto">
      <Icon name="error" /> {text}
    </p>
  );

/** The fields of an object; optional groups that it does not have are offered below them. */
function Parts({
  schema,
  value,
  onChange,
  path,
  faults,
  isReadOnly,
}: Omit<PartProps, 'name' | 'isRequired'>) {
  const members = isObject(value) ? value : {};
  const { properties = {}, required = [] } = schema;
  const change = (name: string) => (next: unknown) => {
    const { [name]: _, ...others } = members;
    // In the order of the schema, in which the gateway shows the document.
    const all: Record<string, unknown> = next === undefined ? others : { ...others, [name]: next };
    const known = Object.keys(properties).filter((each) => each in all);
    const unknown = Object.keys(all).filter((each) => !(each in properties));
    onChange(Object.fromEntries([...known, ...unknown].map((each) => [each, all[each]])));
  };
  const isGroup = (name: string) => ['object', 'list', 'json'].includes(kindOf(properties[name] ?? {}));
  const absent = Object.keys(properties).filter(
    (name) => members[name] === undefined && isGroup(name) && !required.includes(name),
  );
  return (
    <>
      {Object.entries(properties)
        .filter(([name]) => !absent.includes(name))
        .map(([name, part]) => (
          <Part
            key={name}
            schema={part}
            value={members[name]}
            onChange={change(name)}
            path={path === '' ? name : `${path}.${name}`}
            name={name}
            isRequired={required.includes(name)}
            faults={faults}
            isReadOnly={isReadOnly}
          />
        ))}
      {!isReadOnly && absent.length > 0 && (
        <div class="actions">
          {absent.map((name) => (
            <Button key={name} icon="plus" onClick={() => change(name)(firstValue(properties[name] ?? {}))}>
              {name}
            </Button>
          ))}
        </div>
      )}
    </>
  );
}

function Part(props: PartProps) {
  switch (kindOf(props.schema, props.value)) {
    case 'object':
      return <Group {...props} />;
    case 'list':
      return <List {...props} />;
    case 'texts':
      return <Texts {...props} />;
    case 'choices':
      return <Choices {...props} />;
    case 'choice':
      return <Choice {...props} />;
    case 'boolean':
      return <Switch {...props} />;
    case 'json':
      return <JsonPart {...props} />;
    default:
      return <Leaf {...props} />;
  }
}

interface FrameProps extends Pick<PartProps, 'name' | 'path' | 'faults' | 'isReadOnly'> {
  /** Absent where the part must stay. */
  readonly onRemove?: (() => void) | undefined;
  readonly children: ComponentChildren;
}

const Frame = ({ name, path, faults, isReadOnly, onRemove, children }: FrameProps) => (
  <fieldset class="stack" style={framed} data-path={path} tabIndex={-1}>
    <legend class="code" style={legend}>
      {name}
    </legend>
    <Fault text={faults.get(path)} />
    {children}
    {onRemove !== undefined && !isReadOnly && (
      <div>
        <Button kind="link" onClick={onRemove}>
          {w.without(name)}
        </Button>
      </div>
    )}
  </fieldset>
);

const Group = (props: PartProps) => {
  const { schema, isRequired, onChange } = props;
  return (
    <Frame {...props} onRemove={isRequired ? undefined : () => onChange(undefined)}>
      {Object.keys(schema.properties ?? {}).length === 0 ? (
        <p class="quiet">{w.noFields}</p>
      ) : (
        <Parts {...props} />
      )}
    </Frame>
  );
};

function List({ schema, value, onChange, path, name, faults, isReadOnly, isRequired }: PartProps) {
  const { items = {}, minItems = 0, maxItems } = schema;
  const all = listIn(value);
  const change = (next: readonly unknown[]) => onChange(next.length === 0 && !isRequired ? undefined : next);
  return (
    <div class="stack" data-path={path} tabIndex={-1}>
      <Fault text={faults.get(path)} />
      {all.map((each, index) => (
        <Frame
          // The members of a list have no names.
          key={index}
          name={`${name} ${index + 1}`}
          path={`${path}[${index}]`}
          faults={faults}
          isReadOnly={isReadOnly}
          onRemove={all.length <= minItems ? undefined : () => change(all.filter((_, at) => at !== index))}
        >
          <Parts
            schema={items}
            value={each}
            onChange={(next) => change(all.map((old, at) => (at === index ? next : old)))}
            path={`${path}[${index}]`}
            faults={faults}
            isReadOnly={isReadOnly}
          />
        </Frame>
      ))}
      {!isReadOnly && (
        <div class="actions">
          <Button
            icon="plus"
            disabled={maxItems !== undefined && all.length >= maxItems}
            onClick={() => change([...all, firstValue(items)])}
          >
            {name}
          </Button>
          {maxItems !== undefined && <span class="quiet">{w.atMost(formatNumber(maxItems))}</span>}
        </div>
      )}
    </div>
  );
}

const hintOf = ({ schema, isRequired }: Pick<PartProps, 'schema' | 'isRequired'>): string | undefined =>
  [describeLimits(schema), ...(isRequired ? [w.isRequired] : [])].filter(Boolean).join(' · ') || undefined;

/** The fault of a field; of a simple list also those of its members. */
const faultOf = (faults: Faults, path: string): string | undefined =>
  faults.get(path) ?? [...faults].find(([at]) => at.startsWith(`${path}[`))?.[1];

const marked = (path: string) => ({ 'data-path': path });

/** A line for each text. Empty lines stay while they are typed. */
function Texts({ schema, value, onChange, path, name, isRequired, faults, isReadOnly }: PartProps) {
  const stored = listIn(value).map(String);
  const [text, setText] = useState(stored.join('\n'));
  const read = (from: string) => from.split('\n').filter((line) => line !== '');
  const visible = read(text).join('\n') === stored.join('\n') ? text : stored.join('\n');
  const limits = hintOf({ schema, isRequired });
  return (
    <div {...marked(path)}>
      <TextField
        label={name}
        hint={limits === undefined ? w.aLineEach : `${w.aLineEach} · ${limits}`}
        value={visible}
        onChange={(next) => {
          setText(next);
          const lines = read(next);
          onChange(lines.length === 0 && !isRequired ? undefined : lines);
        }}
        fault={faultOf(faults, path)}
        lines={Math.min(8, Math.max(2, stored.length + 1))}
        readonly={isReadOnly}
        code
      />
    </div>
  );
}

function Choices({ schema, value, onChange, path, name, faults, isReadOnly, isRequired }: PartProps) {
  const chosen = listIn(value);
  const choices = schema.items?.enum ?? [];
  return (
    <Frame name={name} path={path} faults={faults} isReadOnly={isReadOnly}>
      <div class="check-fields">
        {choices.map((each) => (
          <CheckField
            key={each}
            label={<span class="code">{each}</span>}
            value={chosen.includes(each)}
            disabled={isReadOnly}
            onChange={(isChosen) => {
              const next = choices.filter((choice) => (choice === each ? isChosen : chosen.includes(choice)));
              onChange(next.length === 0 && !isRequired ? undefined : next);
            }}
          />
        ))}
      </div>
    </Frame>
  );
}

const Choice = ({ schema, value, onChange, path, name, isRequired, faults, isReadOnly }: PartProps) => {
  const known = schema.enum ?? [];
  const stored = typeof value === 'string' ? value : '';
  // A value that the schema does not have stays until another one is chosen.
  const all = [
    ...(isRequired && stored !== '' ? [] : ['']),
    ...known,
    ...(known.includes(stored) || stored === '' ? [] : [stored]),
  ];
  return (
    <div {...marked(path)}>
      {isReadOnly ? (
        <TextField label={name} value={stored === '' ? w.notSet : stored} onChange={() => {}} readonly code />
      ) : (
        <SelectField
          label={name}
          value={stored}
          options={all.map((each) => [each, each === '' ? w.notSet : each] as const)}
          onChange={(next) => onChange(next === '' ? undefined : next)}
          {...(isRequired ? { hint: w.isRequired } : {})}
          fault={faults.get(path)}
        />
      )}
    </div>
  );
};

/** An absent one means false. */
const Switch = ({ value, onChange, path, name, isRequired, faults, isReadOnly }: PartProps) => (
  <div {...marked(path)}>
    <CheckField
      label={<span class="code">{name}</span>}
      value={value === true}
      disabled={isReadOnly}
      onChange={(isOn) => onChange(isOn || isRequired ? isOn : undefined)}
    />
    <Fault text={faults.get(path)} />
  </div>
);

function Leaf({ schema, value, onChange, path, name, isRequired, faults, isReadOnly }: PartProps) {
  const isNumber = schema.type === 'integer';
  const hint = hintOf({ schema, isRequired });
  const change = (text: string) => {
    if (text === '' && (isNumber || !isRequired)) return onChange(undefined);
    // What is no whole number is sent as it is, so that the gateway names the fault.
    onChange(isNumber && /^-?\d{1,15}$/.test(text) ? Number(text) : text);
  };
  return (
    <div {...marked(path)}>
      <TextField
        label={name}
        value={value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value)}
        onChange={change}
        {...(hint === undefined ? {} : { hint })}
        fault={faults.get(path)}
        readonly={isReadOnly}
        code
      />
    </div>
  );
}

const writeJson = (value: unknown): string => JSON.stringify(value, null, 2) ?? '';

/** A text that is no JSON is a value itself: `*` is one, and of another the gateway names the fault. */
function readJson(text: string): { readonly value: unknown; readonly fault?: string } {
  if (text.trim() === '') return { value: undefined };
  try {
    return { value: JSON.parse(text) };
  } catch (cause) {
    const isMeant = /^\s*["[{]/.test(text);
    return {
      value: text,
      ...(isMeant ? { fault: cause instanceof Error ? cause.message : String(cause) } : {}),
    };
  }
}

/** A part whose schema has several forms. */
function JsonPart({ schema, value, onChange, path, name, isRequired, faults, isReadOnly }: PartProps) {
  // The text as it was typed, as long as it stands for the value: of a list, another member may have taken the place.
  const [typed, setTyped] = useState(() => writeJson(value));
  const text = writeJson(readJson(typed).value) === writeJson(value) ? typed : writeJson(value);
  const { fault } = readJson(text);
  const change = (next: string) => {
    setTyped(next);
    onChange(readJson(next).value);
  };
  const faultBelow = [...faults].find(([at]) => at === path || at.startsWith(`${path}.`))?.[1];
  return (
    <div {...marked(path)}>
      <TextField
        label={name}
        hint={[schema.description, w.asJson, ...(isRequired ? [w.isRequired] : [])]
          .filter(Boolean)
          .join(' · ')}
        value={text}
        onChange={change}
        fault={fault ?? faultBelow ?? faultOf(faults, path)}
        lines={Math.min(10, Math.max(2, text.split('\n').length))}
        readonly={isReadOnly}
        code
      />
    </div>
  );
}

/** Moves the focus to the field of a part, or of the nearest part around it that has one. */
export function focusPart(form: HTMLElement | null, path: string): void {
  const found = [...(form?.querySelectorAll<HTMLElement>('[data-path]') ?? [])];
  const near = found
    .filter(
      ({ dataset: { path: at = '' } }) =>
        at === path || path.startsWith(`${at}.`) || path.startsWith(`${at}[`),
    )
    .toSorted((a, b) => (b.dataset['path'] ?? '').length - (a.dataset['path'] ?? '').length)[0];
  const control = near?.matches('fieldset')
    ? near
    : near?.querySelector<HTMLElement>('input, select, textarea');
  (control ?? near ?? form)?.focus();
  near?.scrollIntoView({ block: 'center' });
}
