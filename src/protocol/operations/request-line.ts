/** The first line of a row of the operation table: which requests ask for the operation. */

export type Scope = 'service' | 'bucket' | 'object';
/** `ANY` is GET or POST: an action query, which is identified by `Action`. */
export type Method = 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE' | 'OPTIONS' | 'ANY';
export type RequestLine = `${Method} ${Scope}` | `${Method} ${Scope} ${'?' | '+'}${string}`;
