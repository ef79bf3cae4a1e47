/** Answers of the operator API that a client can ask for again by the key that it gave with its request. */
import { type At, type MetadataStore, type Revision, type Stored, table } from '../ports/metadata-store.ts';

export interface IdempotencyRow {
  /** SHA-256 of the caller's account and its key. */
  readonly id: string;
  /** SHA-256 of the operation, path, query and body. */
  readonly request: string;
  /** 0 while the request is executed. */
  readonly status: number;
  readonly body: string;
}

export const idempotencyKeys = table<IdempotencyRow>()({
  name: 'idempotency_keys',
  kind: 'conditional',
  partition: ['id'],
  sort: [],
  columns: { id: 'text', request: 'text', status: 'int', body: 'text' },
});

const at = (id: string): At<typeof idempotencyKeys> => ({ table: idempotencyKeys, in: { id } });

export const findAnswer = (
  metadata: Pick<MetadataStore, 'get'>,
  id: string,
): Promise<Stored<IdempotencyRow> | undefined> => metadata.get(at(id), {});

/** Undefined where another request has changed the row. */
export async function putAnswer(
  metadata: Pick<MetadataStore, 'commit'>,
  row: IdempotencyRow,
  { expect, expiresAt }: { readonly expect: Revision | 'absent'; readonly expiresAt: number },
): Promise<Revision | undefined> {
  const outcome = await metadata.commit(at(row.id), [{ put: row, expect, expiresAt }]);
  return outcome.applied ? outcome.revision : undefined;
}

export const removeAnswer = (
  metadata: Pick<MetadataStore, 'commit'>,
  id: string,
  expect: Revision,
): Promise<unknown> => metadata.commit(at(id), [{ remove: {}, expect }]);
