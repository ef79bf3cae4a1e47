/** The input of the policy engine: the caller, the action, the resource, and the facts that conditions read. */

/** The caller. Set by authentication, so that a header cannot forge it. */
export interface Principal {
  readonly kind: 'anonymous' | 'root' | 'user' | 'session' | 'service';
  /** The owner id; also the canonical user id of ACLs. '' for anonymous requests and services. */
  readonly account: string;
  /** `arn:aws:iam::<account>:root`, a user's ARN, or the *role's* ARN of a session; '' when there is none. */
  readonly arn: string;
  /** For a session: `arn:aws:sts::<account>:assumed-role/<role>/<session>`, which policies may name too. */
  readonly sessionArn?: string;
  /** The unique id (`AIDA…`, `AROA…:<session>`), the account for its root, '' for services. */
  readonly userid: string;
  /** For IAM users only. */
  readonly username?: string;
  /** For services only, such as `logging.s3.amazonaws.com`. */
  readonly service?: string;
  /** Tags of the user or role and of the session, by name. Names compare without regard to case. */
  readonly tags?: ReadonlyMap<string, string>;
}

/** A fact about the connection that exists and that this process was not told. Conditions on it are decided against the caller. */
export const unknownFact: unique symbol = Symbol('unknown');
export type Fact = string | readonly string[] | typeof unknownFact | undefined;

/**
 * The facts of a request, read only when a condition needs them. `key` is a name in the spelling of `keys.ts` (`aws:SourceIp`), where
 * applicable with the tag's name in the spelling of the policy (`s3:ExistingObjectTag/Env`). Undefined and an empty list both mean
 * that the request has no such key.
 */
export interface Facts {
  lookup(key: string): Fact;
}

export interface PolicyRequest {
  readonly principal: Principal;
  /** Such as `s3:GetObject`. */
  readonly action: string;
  /** The ARN of the resource. */
  readonly resource: string;
  /** For the policy of a resource: the account that owns it, which principals without an account belong to. */
  readonly resourceAccount?: string | undefined;
  readonly context: Facts;
}

export const anonymous: Principal = { kind: 'anonymous', account: '', arn: '', userid: 'anonymous' };
