/** A row of the table of measurements. */
export interface Measurement {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly doc: string;
  /** What an operator does when the value moves. */
  readonly act: string;
  /** Upper bounds of a histogram, in seconds. */
  readonly buckets?: readonly number[];
  /** How the values of several processes become the node's; `sum` when absent. */
  readonly across?: 'sum' | 'max' | 'min' | 'first';
}

export type Measurements = Readonly<Record<string, Measurement>>;
