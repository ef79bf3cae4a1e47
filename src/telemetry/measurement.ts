/** A row of the table of measurements. */
export interface Measurement {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly doc: string;
  /** What an operator does when the value moves. */
  readonly act: string;
  /** Upper bounds of a histogram, in seconds. */
  readonly buckets?: readonly number[];
  /**
   * Of a label: its values that are exported at 0 from the start, because `increase` and `rate` see no first event of a series that did not
   * exist before. `known`: the values that `Metrics.know` tells.
   */
  readonly from0?: Readonly<Record<string, readonly string[] | 'known'>>;
  /** How the values of several processes become the node's; `sum` when absent. */
  readonly across?: 'sum' | 'max' | 'min' | 'first';
}

/** Labels whose values are names that settings, operators or other tables choose. */
export type KnownLabel = 'peer' | 'provider' | 'target' | 'worker';

/** The label sets of a row that are exported at 0, in the order of its labels; none where a label has no such values. */
export function zeroSets(
  { labels, from0 }: Measurement,
  known: ReadonlyMap<string, ReadonlySet<string>>,
): string[][] {
  if (from0 === undefined) return [];
  return labels.reduce<string[][]>(
    (sets, label) => {
      const values = from0[label] ?? [];
      const all = values === 'known' ? [...(known.get(label) ?? [])] : values;
      return sets.flatMap((set) => all.map((value) => [...set, value]));
    },
    [[]],
  );
}

export type Measurements = Readonly<Record<string, Measurement>>;
