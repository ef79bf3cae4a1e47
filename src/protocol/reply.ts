/** The reply of a handler, before a runtime converts it to its own type. */
export type ReplyBody = Uint8Array | string | AsyncIterable<Uint8Array>;

export type HeaderPair = readonly [name: string, value: string];

export interface Reply {
  readonly status: number;
  /**
   * Name and value in order. A name that starts with `*-` takes the prefix of the request's dialect
   * (both prefixes when the request showed none); see `render.ts`.
   */
  readonly headers: readonly HeaderPair[];
  /** A stream's array is valid until the array after the next is requested. Absent: no body. */
  readonly body?: ReplyBody;
}

/** The id that the gateway gave to the request; undefined in a reply that a runtime made itself. */
export const findRequestId = ({ headers }: Pick<Reply, 'headers'>): string | undefined =>
  headers.find(([name]) => name.toLowerCase().endsWith('-request-id'))?.[1];
