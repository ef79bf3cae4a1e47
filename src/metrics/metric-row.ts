/** A row of the table of metrics. */
export interface MetricRow {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly doc: string;
  /** What an operator does when the value moves. */
  readonly act: string;
  /** Upper bounds of a histogram, in seconds. */
  readonly buckets?: readonly number[];
  /**
   * By label: the values that are exported at 0 from the start, because `increase` and `rate` miss the first event of a series that did not
   * exist before. `known`: the values that `Metrics.know` adds.
   */
  readonly from0?: Readonly<Record<string, readonly string[] | 'known'>>;
  /** How the values of several processes become the node's; `sum` when absent. */
  readonly across?: 'sum' | 'max' | 'min' | 'first';
  /**
   * The counter that ranks the values of the first label. Only the SVC_BUCKETSTATS_TOPN values that it counted most
   * have series, so that the number of series is bounded. All rows that name the same counter have the same labels.
   */
  readonly rankedBy?: string;
}

export type MetricRows = Readonly<Record<string, MetricRow>>;
