/** What an application that embeds the gateway decides and observes: sessions of its own in place of access keys, and events in process. */

import type { Awaitable } from '../base/awaitable.ts';

/** A request as an application may judge it: without its body, which belongs to the gateway. */
export interface ApplicationRequest {
  readonly method: string;
  /** The raw path and query, as they were sent. */
  readonly target: string;
  /** Among them the application's own cookie or token. */
  readonly headers: Headers;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

/** One permission that a request needs. */
export interface AuthorizeFacts {
  /** The operation of the request, such as `PutObject`. */
  readonly operation: string;
  /** The permission, such as `s3:PutObject`. */
  readonly action: string;
  /** '' for ListBuckets. */
  readonly bucket: string;
  /** '' where the permission is about the bucket itself. */
  readonly key: string;
  /** The prefix of a listing; absent where it names none, and for all other permissions. */
  readonly prefix?: string;
  /** The client's address, behind trusted proxies too; undefined where the runtime does not tell it. */
  readonly remote: string | undefined;
}

/** For whom the application lets the request pass. */
export interface ApplicationSession {
  /** The account that acts, and that is charged: one of `credentials`, or one that the operator API has created. */
  readonly owner: string;
  /**
   * The session's user in the audit log, in events and in policies (`arn:aws:iam::<owner>:application/<name>`): 1 to 64 letters, digits
   * and `_+=,.@-`. Default `session`.
   */
  readonly name?: string;
}

/**
 * - a session: the permission is granted to it, unless the bucket's policy denies it, or the bucket belongs to another account whose
 *   policy does not allow it;
 * - `'anonymous'`: the request goes on as one without credentials, so public buckets stay public;
 * - `{ refusal }`: 403 with this text;
 * - undefined: 403.
 */
export type AuthorizeAnswer = ApplicationSession | 'anonymous' | { readonly refusal: string } | undefined;

/**
 * Decides about a request that no access key has signed. It is called for each permission that the request needs, so for a copy also about
 * its source, and for DeleteObjects about each key after a first call with the key ''. Where it throws, the request fails with 500.
 */
export type Authorize = (request: ApplicationRequest, facts: AuthorizeFacts) => Awaitable<AuthorizeAnswer>;

/** A change of an object, by a request, a rule of the bucket's lifecycle, or replication. */
export interface ObjectEvent {
  /** Equal in every delivery of the same event. */
  readonly id: string;
  /** As the public API names it, such as `ObjectCreated:Put`, `ObjectRemoved:Delete` or `ObjectTagging:Put`. */
  readonly name: string;
  /** ISO 8601. */
  readonly time: string;
  readonly bucket: string;
  /** The account that owns the bucket. */
  readonly account: string;
  readonly key: string;
  /** In bytes; absent where the object is gone. */
  readonly size?: number;
  /** Without quotes. */
  readonly etag?: string;
  /** Absent in a bucket that never had versions. */
  readonly versionId?: string;
  /** Grows as text with every event of a key. */
  readonly sequencer: string;
  /** The unique id of the caller; `application:<name>` for a session of the application. */
  readonly principal: string;
  /** The client's address; absent where it is unknown. */
  readonly remote?: string;
  readonly requestId: string;
}

/** Where it throws, or takes longer than `notifyTimeout`, the event counts as not delivered. Events of other buckets go on meanwhile. */
export type OnEvent = (event: ObjectEvent) => Awaitable<void>;

/**
 * - `at-least-once`: events are stored in the commit of the change, and delivered by the worker `notify`, those of a
 *   key in their order. One that fails is delivered again for `notifyRetryMax`, then it is a dead letter, which `sluice
 *   admin notify` shows. Every process that writes to the same metadata needs the handler.
 * - `best-effort`: the handler is called in the process of the change, directly after it, in no order; what fails is
 *   logged, and never repeated.
 */
export type EventDelivery = 'at-least-once' | 'best-effort';

export interface Application {
  readonly authorize?: Authorize | undefined;
  readonly onEvent?: OnEvent | undefined;
  /** Default `at-least-once`. */
  readonly eventDelivery?: EventDelivery | undefined;
}
