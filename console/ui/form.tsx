/** Forms: buttons, fields with their label, hint and fault, and a form that shows what the gateway refused. */
import type { ComponentChildren, Ref } from 'preact';
import { useContext, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Refused } from '../app/client.ts';
import { t } from '../text/text.ts';
import { Icon, type IconName } from './icons.tsx';
import { Failure } from './states.tsx';
import { GuardsForms, submitting, useUnsaved } from './unsaved.ts';

export interface ButtonProps {
  readonly children?: ComponentChildren;
  /** For a button that shows only an icon. */
  readonly label?: string;
  readonly icon?: IconName;
  readonly kind?: 'plain' | 'primary' | 'danger' | 'link';
  readonly type?: 'button' | 'submit';
  readonly busy?: boolean;
  readonly disabled?: boolean;
  readonly class?: string;
  /** Why it is disabled. */
  readonly title?: string;
  readonly onClick?: (event: MouseEvent) => void;
}

export function Button({
  children,
  label,
  icon,
  kind = 'plain',
  type = 'button',
  busy = false,
  disabled = false,
  title,
  onClick,
  ...rest
}: ButtonProps) {
  const isIcon = children === undefined && icon !== undefined;
  const classes = [
    'button',
    kind === 'plain' ? '' : `is-${kind}`,
    isIcon ? 'is-icon' : '',
    rest.class ?? '',
  ].filter(Boolean);
  return (
    <button
      type={type}
      class={classes.join(' ')}
      aria-label={label}
      aria-busy={busy || undefined}
      // A busy button keeps the focus, which the browser takes from a disabled one.
      aria-disabled={busy || undefined}
      disabled={disabled && !busy}
      title={title ?? (isIcon ? label : undefined)}
      // Enter in a field clicks the button of its form, too.
      onClick={busy ? (event) => event.preventDefault() : onClick}
    >
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** The compiler knows the roles of each type of input, and so takes no type that is chosen later. */
export const inputType = (type: string): object => ({ type });

interface FieldControl {
  readonly id: string;
  readonly 'aria-describedby'?: string;
  readonly 'aria-invalid'?: true;
}

interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly fault?: string | undefined;
  readonly children: (control: FieldControl) => ComponentChildren;
}

export function Field({ label, hint, fault, children }: FieldProps) {
  const id = useId();
  const about = [hint === undefined ? '' : `${id}-hint`, fault === undefined ? '' : `${id}-fault`].filter(
    Boolean,
  );
  const control: FieldControl = {
    id,
    ...(about.length === 0 ? {} : { 'aria-describedby': about.join(' ') }),
    ...(fault === undefined ? {} : { 'aria-invalid': true }),
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(control)}
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {fault !== undefined && (
        <p class="fault" id={`${id}-fault`}>
          <Icon name="error" /> {fault}
        </p>
      )}
    </div>
  );
}

interface TextFieldProps extends Omit<FieldProps, 'children'> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly type?: 'text' | 'password' | 'number' | 'date' | 'search';
  readonly placeholder?: string;
  readonly code?: boolean;
  /** More than one: a text area. */
  readonly lines?: number;
  readonly required?: boolean;
  readonly readonly?: boolean;
  readonly areaRef?: Ref<HTMLTextAreaElement>;
}

export function TextField({
  value,
  onChange,
  type = 'text',
  placeholder,
  code = false,
  lines = 1,
  required = false,
  readonly = false,
  areaRef,
  ...field
}: TextFieldProps) {
  const className = code ? 'input code' : 'input';
  return (
    <Field {...field}>
      {(control) =>
        lines > 1 ? (
          <textarea
            {...control}
            ref={areaRef}
            class={className}
            rows={lines}
            value={value}
            required={required}
            readOnly={readonly}
            spellcheck={!code}
            placeholder={placeholder}
            onInput={(event) => onChange(event.currentTarget.value)}
          />
        ) : (
          <input
            {...control}
            class={className}
            {...inputType(type)}
            value={value}
            required={required}
            readOnly={readonly}
            spellcheck={false}
            placeholder={placeholder}
            onInput={(event) => onChange(event.currentTarget.value)}
          />
        )
      }
    </Field>
  );
}

export interface ChoiceProps<V extends string> {
  readonly value: V;
  readonly options: readonly (readonly [value: V, text: string])[];
  readonly onChange: (value: V) => void;
}

interface SelectInputProps<V extends string> extends ChoiceProps<V>, Partial<FieldControl> {
  readonly class?: string;
  readonly 'aria-label'?: string;
}

/** A select without a label. */
export const SelectInput = <V extends string>({
  value,
  options,
  onChange,
  ...control
}: SelectInputProps<V>) => (
  // The cast: the options have only such values.
  <select
    class="input"
    {...control}
    value={value}
    onChange={(event) => onChange(event.currentTarget.value as V)}
  >
    {options.map(([each, text]) => (
      <option key={each} value={each}>
        {text}
      </option>
    ))}
  </select>
);

/** A choice above a list or in the head of a page. */
export const Select = <V extends string>({
  label,
  ...choice
}: ChoiceProps<V> & { readonly label: string }) => (
  <SelectInput {...choice} class="input is-short" aria-label={label} />
);

interface SearchInputProps {
  readonly label: string;
  /** What is searched for now. A text that is being typed is shown instead, until another value comes from elsewhere. */
  readonly value: string;
  /**
   * Gets the text at once on Enter, otherwise when the typing pauses. `push` with the first text of a search: all its texts are one
   * entry of the history, so that Back returns to what was before the search.
   */
  readonly onSearch: (text: string, how: { readonly push: boolean }) => void;
  /** 0 where the rows are in memory already: the text is searched for as it is typed. */
  readonly pauseMs?: number;
  /** Absent: the label. */
  readonly placeholder?: string;
  readonly maxLength?: number;
  /** The key `/` moves the focus to it: one input of a page has it. */
  readonly hasShortcut?: boolean;
}

const typingPauseMs = 300;

/** A text that a list is searched or filtered by. */
export function SearchInput({
  label,
  value,
  onSearch,
  pauseMs = typingPauseMs,
  placeholder = label,
  maxLength,
  hasShortcut = true,
}: SearchInputProps) {
  const { text, type, enter, begin } = useTyping(value, onSearch, pauseMs);
  return (
    <label class="filter">
      <Icon name="search" />
      <input
        class="input"
        type="search"
        {...(hasShortcut ? { 'data-filter': true } : {})}
        maxLength={maxLength}
        placeholder={placeholder}
        aria-label={label}
        value={text}
        onFocus={begin}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return;
          enter();
          begin();
        }}
      />
    </label>
  );
}

/** The address changes some time after `onSearch`: an earlier text that comes back from there does not replace what is typed. */
function useTyping(value: string, onSearch: SearchInputProps['onSearch'], pauseMs: number) {
  const [typed, setTyped] = useState<string>();
  const state = useRef({
    /** Texts that have not come back. */
    sent: [] as string[],
    /** The timer of the pause that the typing is in. */
    pause: undefined as ReturnType<typeof setTimeout> | undefined,
    hasEntry: false,
  }).current;
  useLayoutEffect(() => {
    // A page may remove the spaces at the ends.
    const at = state.sent.findIndex((text) => text.trim() === value.trim());
    state.sent = state.sent.slice(at + 1);
    if (at >= 0) return;
    state.sent = [];
    if (state.pause !== undefined) return;
    state.hasEntry = false;
    setTyped(undefined);
  }, [value, state]);
  useLayoutEffect(() => () => clearTimeout(state.pause), [state]);
  const send = (text: string) => {
    clearTimeout(state.pause);
    state.pause = undefined;
    if (text === (state.sent.at(-1) ?? value)) return;
    state.sent.push(text);
    onSearch(text, { push: !state.hasEntry });
    state.hasEntry = true;
  };
  return {
    text: typed ?? value,
    type(text: string) {
      setTyped(text);
      clearTimeout(state.pause);
      if (pauseMs === 0) send(text);
      else state.pause = setTimeout(() => send(text), pauseMs);
    },
    enter() {
      if (state.pause !== undefined && typed !== undefined) send(typed);
    },
    /** The next text begins a search. */
    begin() {
      state.hasEntry = false;
    },
  };
}

type SelectFieldProps<V extends string> = Omit<FieldProps, 'children'> & ChoiceProps<V>;

export const SelectField = <V extends string>({
  value,
  options,
  onChange,
  ...field
}: SelectFieldProps<V>) => (
  <Field {...field}>
    {(control) => <SelectInput {...control} value={value} options={options} onChange={onChange} />}
  </Field>
);

interface CheckFieldProps {
  readonly label: ComponentChildren;
  readonly value: boolean;
  readonly onChange: (value: boolean) => void;
  readonly disabled?: boolean;
}

export const CheckField = ({ label, value, onChange, disabled = false }: CheckFieldProps) => (
  <label class="check">
    <input
      type="checkbox"
      checked={value}
      disabled={disabled}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
    <span>{label}</span>
  </label>
);

/** A choice is made again in a moment, a text is not. */
const typedFields = 'textarea, input:not([type=checkbox], [type=radio], [type=range])';

interface FormProps {
  readonly children: (fault: (field: string) => string | undefined) => ComponentChildren;
  readonly submit: string;
  readonly kind?: 'primary' | 'danger';
  readonly disabled?: boolean;
  /**
   * What it throws is shown above the buttons; a refusal that names a field is shown at that field too. It returns false where it has
   * stored nothing, so that the text is unsaved still.
   */
  readonly onSubmit: () => Promise<unknown>;
  /** For a form whose buttons change it too; typed text is seen without it. */
  readonly isChanged?: boolean;
  /** Whether the router asks before an edited form is left. Default: where the form is in a panel. */
  readonly isGuarded?: boolean;
  readonly onCancel?: () => void;
  /** Further buttons beside those of the form. */
  readonly tools?: ComponentChildren;
}

export function Form({
  children,
  submit,
  kind = 'primary',
  disabled = false,
  onSubmit,
  onCancel,
  tools,
  isChanged = false,
  isGuarded,
}: FormProps) {
  const isInPanel = useContext(GuardsForms);
  const setUnsaved = useUnsaved();
  const isTyped = useRef(false);
  const isNowChanged = useRef(isChanged);
  isNowChanged.current = isChanged;
  const setTyped = (next: boolean) => {
    isTyped.current = next;
    setUnsaved((isGuarded ?? isInPanel) && (next || isNowChanged.current) ? 'form' : undefined);
  };
  useLayoutEffect(() => setTyped(isTyped.current), [isChanged]);
  const cancel =
    onCancel &&
    (() => {
      setUnsaved(undefined);
      onCancel();
    });
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const run = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      if ((await submitting(onSubmit)) !== false) setTyped(false);
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  };
  const faultOf = (field: string) =>
    error instanceof Refused && error.details['field'] === field ? error.message : undefined;
  return (
    <form
      class="stack"
      onSubmit={run}
      // The fields show the state of their component, which replaces what was typed when it resets the form.
      onReset={(event) => {
        event.preventDefault();
        setTyped(false);
      }}
      onInput={({ target }) => target instanceof Element && target.matches(typedFields) && setTyped(true)}
    >
      {children(faultOf)}
      {error !== undefined && <Failure error={error} />}
      <div class="actions">
        <Button type="submit" kind={kind} busy={isBusy} disabled={disabled}>
          {submit}
        </Button>
        {tools}
        {cancel !== undefined && <Button onClick={cancel}>{t.ui.cancel}</Button>}
      </div>
    </form>
  );
}
