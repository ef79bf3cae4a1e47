/** The one way to refuse a request: `throw fail('NoSuchKey', { Key: key })`. */
import type { ErrorCode } from './codes.ts';

/** Extra elements of the error body; `message` replaces the catalogue's text, `cause` is only logged. */
export interface RefusalDetails {
  readonly message?: string;
  readonly cause?: unknown;
  /** Seconds after which the client should retry; absent uses the value of the catalogue. */
  readonly retryAfter?: number;
  /** The setting of a public access block that refuses, for the text that callers of the resource's account get. */
  readonly blockedBy?: 'BlockPublicAcls' | 'BlockPublicPolicy';
  /** The text and elements that callers of one account get in addition, because they tell what is its own. */
  readonly forAccount?: {
    readonly account: string;
    readonly message: string;
    readonly elements: Readonly<Record<string, string | number>>;
  };
  /** Further reply headers (bare names take the dialect's prefix when they start with `*-`). */
  readonly headers?: Readonly<Record<string, string>>;
  /** The field of a body, or the parameter, that is wrong; in `details` of the operator API's errors. */
  readonly field?: string;
  /** Elements beside Code and Message, such as `Key` or `ArgumentName`. */
  readonly elements?: Readonly<Record<string, string | number>>;
}

export class Refusal extends Error {
  readonly code: ErrorCode;
  readonly details: RefusalDetails;

  constructor(code: ErrorCode, details: RefusalDetails) {
    super(details.message ?? code, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.details = details;
    this.name = 'Refusal';
  }
}

export const fail = (code: ErrorCode, details: RefusalDetails | string = {}): Refusal =>
  new Refusal(code, typeof details === 'string' ? { message: details } : details);
