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
}

export interface Credentials {
  find(accessKey: string): Promise<Credential | undefined>;
}
