/** `1 object`, `2 objects`: the languages of the console have two forms. */
export const plural = (count: number, one: string, many: string): string =>
  `${count.toLocaleString(document.documentElement.lang)} ${count === 1 ? one : many}`;
