/** Log-ins of operators: sessions of browsers, each named by the hash of its cookie. One partition, because there are few. */
import {
  type At,
  type Change,
  type MetadataStore,
  type Outcome,
  type SideChange,
  type Stored,
  table,
} from '../ports/metadata-store.ts';

export interface LoginRow {
  /** Always 0: there are few log-ins, and one scan reads them all. */
  readonly slot: number;
  /** SHA-256 of the cookie's token, in hexadecimal. */
  readonly id: string;
  readonly accessKey: string;
  readonly account: string;
  /** The ARN of the caller. */
  readonly principal: string;
  /** HMAC of the secret key under the token: the session ends when the key gets another secret. */
  readonly proof: string;
  /** ms since the epoch, like the following. */
  readonly createdAt: number;
  /** Written at most once a minute. */
  readonly seenAt: number;
  readonly expiresAt: number;
  /** The client's address and `User-Agent` at the log-in, shortened. */
  readonly source: string;
  readonly agent: string;
}

export const logins = table<LoginRow>()({
  name: 'logins',
  kind: 'conditional',
  partition: ['slot'],
  sort: ['id'],
  columns: {
    slot: 'int',
    id: 'text',
    accessKey: 'text',
    account: 'text',
    principal: 'text',
    proof: 'text',
    createdAt: 'int',
    seenAt: 'int',
    expiresAt: 'int',
    source: 'text',
    agent: 'text',
  },
});

const loginsAt: At<typeof logins> = { table: logins, in: { slot: 0 } };

export const findLogin = (
  metadata: Pick<MetadataStore, 'get'>,
  id: string,
): Promise<Stored<LoginRow> | undefined> => metadata.get(loginsAt, { id });

/** At most `limit` log-ins by id, from the first one after `after`. */
export function scanLogins(
  metadata: Pick<MetadataStore, 'scan'>,
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<readonly Stored<LoginRow>[]> {
  return metadata.scan(loginsAt, after === undefined ? {} : { after: { id: after } }).next(limit);
}

export const commitLogin = (
  metadata: Pick<MetadataStore, 'commit'>,
  change: Change<typeof logins>,
  then: readonly SideChange[],
): Promise<Outcome<typeof logins>> => metadata.commit(loginsAt, [change], { then });
