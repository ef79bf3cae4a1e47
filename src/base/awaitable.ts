/**
 * What a callback may return where its caller always awaits: a row of a table need not be asynchronous to give a constant. Functions
 * return one or the other (docs/adr/0018-functions-return-promises.md).
 */
export type Awaitable<T> = T | Promise<T>;
