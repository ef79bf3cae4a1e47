/** Log-ins of operators: sessions of browsers, each named by the hash of its cookie. One partition, because there are few. */
import {
  type At,
  type Change,
  int,
  type MetadataStore,
  type Outcome,
  type RowOf,
  type SideChange,
  type Stored,
  table,
  text,
} from '../ports/metadata-store.ts';

export const logins = table({
  name: 'logins',
  kind: 'conditional',
  isExported: false,
  partition: ['slot'],
  sort: ['id'],
  columns: {
    /** Always 0: there are few log-ins, and one scan reads them all. */
    slot: int(),
    /** SHA-256 of the cookie's token, in hexadecimal. */
    id: text(),
    accessKey: text(),
    account: text(),
    /** The ARN of the caller. */
    principal: text(),
    /** HMAC of the secret key under the token: the session ends when the key gets another secret. */
    proof: text(),
    /** ms since the epoch, like the following. */
    createdAt: int(),
    /** Written at most once a minute. */
    seenAt: int(),
    expiresAt: int(),
    /** The client's address and `User-Agent` at the log-in, shortened. */
    source: text(),
    agent: text(),
  },
});
export interface LoginRow extends RowOf<typeof logins> {}

/** A log-in beyond this number ends another one: the scans that list and count them stay one page. */
export const loginsMax = 1_000;

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

/** Ends the log-ins of an access key that signs no more requests: they stay ended when it is made active again. */
export async function removeLoginsOf(
  metadata: Pick<MetadataStore, 'scan' | 'commit'>,
  accessKey: string,
): Promise<void> {
  for (const { row, revision } of await scanLogins(metadata, { limit: loginsMax }))
    if (row.accessKey === accessKey)
      await commitLogin(metadata, { remove: { id: row.id }, expect: revision }, []);
}

export const commitLogin = (
  metadata: Pick<MetadataStore, 'commit'>,
  change: Change<typeof logins>,
  then: readonly SideChange[],
): Promise<Outcome<typeof logins>> => metadata.commit(loginsAt, [change], { then });
