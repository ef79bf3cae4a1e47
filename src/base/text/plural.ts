/** A count and its noun: `1 object`, `2 objects`. */
export const plural = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`;
