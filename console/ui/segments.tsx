/** A choice among a few, all of them in sight. */
interface SegmentsProps<V extends string> {
  readonly label: string;
  readonly value: V;
  readonly options: readonly (readonly [V, string])[];
  readonly onChange: (value: V) => void;
}

export const Segments = <V extends string>({ label, value, options, onChange }: SegmentsProps<V>) => (
  <fieldset class="segments">
    <legend class="visually-hidden">{label}</legend>
    {options.map(([each, text]) => (
      <button
        key={each}
        type="button"
        class="segment"
        aria-pressed={each === value}
        onClick={() => onChange(each)}
      >
        {text}
      </button>
    ))}
  </fieldset>
);
