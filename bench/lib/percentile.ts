export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number =>
  percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  );

/** Of costs: the slower turns met more of the other load. */
export const lowerQuartile = (costs: readonly number[]): number =>
  costs.toSorted((a, b) => a - b)[Math.floor(costs.length / 4)] as number;
