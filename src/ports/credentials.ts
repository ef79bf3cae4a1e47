/** Access keys and accounts, as a port: a static list, or the key table. */
import type { MetadataStore } from './metadata-store.ts';

export interface Credential {
  readonly accessKey: string;
  readonly secretKey: string;
  /** The account that the key belongs to; buckets belong to accounts. */
  readonly owner: string;
  /** The display name of the account in ACLs and listings. */
  readonly displayName: string;
  readonly email?: string;
  /** The account's root user. */
  readonly root: boolean;
  /** May use `/admin` and the operator queries. */
  readonly operator: boolean;
  /** Absent for a configured key: that acts as its account's root, or as a user that IAM has no record of. */
  readonly caller?: Caller;
  /** The caller's IAM identity; absent for a configured key. */
  readonly iam?: IamIdentity;
  /** Set for temporary credentials. */
  readonly session?: Session;
}

/** What temporary credentials add to their holder's identity, and how they limit it. */
export interface Session {
  readonly issuedAt: number;
  readonly expires: number;
  /** When a code of an MFA device was verified. */
  readonly mfaAt?: number;
  /** The session policies: a document, and ids of managed policies. */
  readonly inline?: string;
  readonly managed?: readonly string[];
  /** Transitive tags: a role that the session assumes gets them too. */
  readonly passedOn?: readonly (readonly [string, string])[];
  /** Who assumed the role; set for every session of a role. */
  readonly by?: Opener;
  /** Set for the credentials of a log-in, which end with it and are for the storage protocol alone. */
  readonly isOfLogin?: true;
  /** The key of the settings or of a root that the session acts for; absent for sessions of IAM users and roles. */
  readonly parentKey?: string;
  /** The session has tags of its own. */
  readonly isTagged?: true;
}

/** The first caller of a chain of roles. A session is refused while the user is disabled, or an account of the chain is not active. */
export interface Opener {
  readonly account: string;
  /** The id of an IAM user; absent for a root, and for a user of the settings. */
  readonly user?: string;
  /** The accounts of the roles in between. */
  readonly through?: readonly string[];
}

/** A user or role among IAM's records. */
export interface IamIdentity {
  /** The unique id of the user or role. */
  readonly id: string;
  /** The state of the account's records in which the caller was found. */
  readonly revision: string;
}

/** The caller that a key acts for, with the ARNs of policies. */
export interface Caller {
  readonly kind: 'root' | 'user' | 'session';
  /** The owner id. */
  readonly account: string;
  /** `arn:aws:iam::<account>:root`, the user's ARN, or for a session the ARN of its role. */
  readonly arn: string;
  /** For a role's session: `arn:aws:sts::<account>:assumed-role/<role>/<session>`. */
  readonly sessionArn?: string;
  /** The unique id (`AIDA…`, `AROA…:<session>`), the account for its root. */
  readonly userid: string;
  /** For users only. */
  readonly username?: string;
  /** Tags of the user or role, and of the session. */
  readonly tags?: ReadonlyMap<string, string>;
}

/** The public facts of an account. */
export interface Account {
  readonly owner: string;
  readonly displayName: string;
  readonly email?: string;
  /** Absent: `Active`. */
  readonly status?: 'Active' | 'Suspended';
  /** The settings have a key of it. */
  readonly isConfigured?: boolean;
  /** Its root is an operator, so its IAM policies may allow actions of the operator API. */
  readonly isOperators?: boolean;
}

/** A request that a key signed. */
export interface KeyUse {
  readonly service: string;
  readonly region: string;
}

export interface Credentials {
  /**
   * The credential of an access key; undefined for a key that is unknown, inactive or deleted.
   * @param token the session token that temporary credentials are sent with
   * @param metadata reads the records of accounts: that of a request whose calls are recorded. Absent: the store itself
   * @throws InvalidToken for a token of another key; ExpiredToken; AccountProblem for a key of a suspended account
   */
  find(accessKey: string, token?: string, metadata?: MetadataStore): Promise<Credential | undefined>;
  /** Records the use of a key; asynchronously, and not for every request. */
  used?(credential: Omit<Credential, 'secretKey'>, use: KeyUse): void;
  /** The account with an id or an e-mail address, where it is known. */
  account(by: { readonly owner: string } | { readonly email: string }): Promise<Account | undefined>;
  /** At most `limit` accounts by id, from the first one after `after`. */
  accounts(page: { readonly after: string | undefined; readonly limit: number }): Promise<readonly Account[]>;
  /** The account that all keys of the settings belong to; undefined where they belong to several. */
  readonly soleAccount: string | undefined;
  /** Whether the settings have the access key. */
  isConfigured(accessKey: string): boolean;
  /** Whether the settings have an account whose id differs from this one in upper and lower case at most. */
  hasAccountLike(owner: string): boolean;
}
