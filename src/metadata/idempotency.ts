/** Answers of the operator API that a client can ask for again by the key that it gave with its request. */
import {
  type At,
  int,
  type MetadataStore,
  type Revision,
  type RowOf,
  type Stored,
  table,
  text,
} from '../ports/metadata-store.ts';

export const idempotencyKeys = table({
  name: 'idempotency_keys',
  kind: 'conditional',
  isExported: true,
  partition: ['id'],
  sort: [],
  columns: {
    /** SHA-256 of the caller's account and its key. */
    id: text(),
    /** SHA-256 of the operation, path, query and body. */
    request: text(),
    /** 0 while the request is executed. */
    status: int(),
    body: text(),
  },
});
export interface IdempotencyRow extends RowOf<typeof idempotencyKeys> {}

/** The keys of an account, so that they can be counted. */
export const idempotencyKeysByAccount = table({
  name: 'idempotency_keys_by_account',
  kind: 'plain',
  isExported: true,
  partition: ['account'],
  sort: ['id'],
  columns: { account: text(), id: text() },
});

/** The keys of an account that live at a time: an answer may have 24 KiB, and is kept for a day. */
export const keysOfAccountMax = 2_000;

const at = (id: string): At<typeof idempotencyKeys> => ({ table: idempotencyKeys, in: { id } });
const keysAt = (account: string): At<typeof idempotencyKeysByAccount> => ({
  table: idempotencyKeysByAccount,
  in: { account },
});

export const findAnswer = (
  metadata: Pick<MetadataStore, 'get'>,
  id: string,
): Promise<Stored<IdempotencyRow> | undefined> => metadata.get(at(id), {});

/** The live keys of an account, up to one more than it may have. */
export async function countKeys(metadata: Pick<MetadataStore, 'scan'>, account: string): Promise<number> {
  const cursor = metadata.scan(keysAt(account));
  let keys = 0;
  while (keys <= keysOfAccountMax) {
    const page = await cursor.next(keysOfAccountMax + 1 - keys);
    if (page.length === 0) break;
    keys += page.length;
  }
  return keys;
}

interface StoredAnswer {
  readonly row: IdempotencyRow;
  readonly account: string;
}

/** Undefined where another request has changed the row. */
export async function putAnswer(
  metadata: Pick<MetadataStore, 'commit'>,
  { row, account }: StoredAnswer,
  { expect, expiresAt }: { readonly expect: Revision | 'absent'; readonly expiresAt: number },
): Promise<Revision | undefined> {
  const counted = { at: keysAt(account), put: { account, id: row.id }, expiresAt };
  const then = expect === 'absent' ? [counted] : [];
  const outcome = await metadata.commit(at(row.id), [{ put: row, expect, expiresAt }], { then });
  return outcome.applied ? outcome.revision : undefined;
}

export const removeAnswer = (
  metadata: Pick<MetadataStore, 'commit'>,
  { row: { id }, account }: StoredAnswer,
  expect: Revision,
): Promise<unknown> =>
  metadata.commit(at(id), [{ remove: {}, expect }], { then: [{ at: keysAt(account), remove: { id } }] });
