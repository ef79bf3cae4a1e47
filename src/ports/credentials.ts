/** Who may call, as a port: a static list, or the key table (spec "Authentication" 2.2). */
export interface Credential {
  readonly accessKey: string;
  readonly secretKey: string;
  /** The account that the key belongs to; buckets belong to accounts. */
  readonly owner: string;
  readonly displayName: string;
  readonly email?: string;
  /** The account's root user. */
  readonly root: boolean;
  /** May use `/admin` and the operator queries. */
  readonly operator: boolean;
  /** Absent for a configured key, which is its account's root, or a user that IAM does not know. */
  readonly caller?: Caller;
}

/** Who a key speaks for, in the words of policies. */
export interface Caller {
  readonly kind: 'root' | 'user' | 'session';
  /** The owner id. */
  readonly account: string;
  /** `arn:aws:iam::<account>:root`, the user's, or the *role's* of a session. */
  readonly arn: string;
  /** Of a role's session: `arn:aws:sts::<account>:assumed-role/<role>/<session>`. */
  readonly sessionArn?: string;
  /** The unique id (`AIDA…`, `AROA…:<session>`), the account for its root. */
  readonly userid: string;
  /** Of users only. */
  readonly username?: string;
  /** Tags of the user or role, and of the session. */
  readonly tags?: ReadonlyMap<string, string>;
}

export interface Credentials {
  find(accessKey: string): Promise<Credential | undefined>;
}
