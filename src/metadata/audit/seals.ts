/**
 * The seals of the audit log: one for each hour, each over the rows of its hour and the seal before. They are kept like the states of
 * tasks, in one partition, so that a commit of a leader states the head that it has read.
 */
import type { MetadataStore, Outcome, Revision } from '../../ports/metadata-store.ts';
import {
  beginTerm,
  findTask,
  pageTasks,
  putTasks,
  type Task,
  type TaskChange,
  type TaskKind,
  type Term,
} from '../background/tasks.ts';
import type { tasks } from '../records/tasks.ts';

export interface AuditSeal {
  readonly hour: number;
  /** The rows of the hour when it was sealed. */
  readonly rows: number;
  /** The digest of the rows of each slot; absent once the rows have expired. */
  readonly slots?: readonly string[];
  /** The digest of `slots`. */
  readonly content: string;
  /** The seal of the hour before; '' for the first one. */
  readonly previous: string;
  readonly seal: string;
  /** The seal, sealed under the master key: a writer to the database who does not have the key cannot make it. Base64. */
  readonly witness: string;
  /** Store time (ms); absent in seals of versions that did not keep it. */
  readonly sealedAt?: number;
  /** The retention when the hour was sealed: some of its rows may expire this long after its start. */
  readonly retentionMs: number;
}

/** The end of the chain. */
export interface AuditHead {
  /** The first and the last sealed hour. */
  readonly first: number;
  readonly hour: number;
  readonly seal: string;
  /** The first hour whose rows are kept. */
  readonly keptFrom: number;
}

/**
 * How far the hours were sealed, in a partition of its own: where the chain was removed, or set back and continued, this row still says so.
 * An attacker who knows of the row can remove it too; only a seal that is noted elsewhere proves that nothing is missing.
 */
export interface SealedExtent {
  /** The first hour that was ever sealed, and the last one with its seal. */
  readonly first: number;
  readonly hour: number;
  readonly seal: string;
  /** `first`, `hour` and `seal`, sealed under the master key. Base64. */
  readonly witness: string;
  /** An hour whose seal was another one before the chain was continued. */
  readonly replaced?: number;
}

/** Two types of state in one partition, so that one commit changes both. */
const kind = 'audit-seal';
const seals: TaskKind<AuditSeal> = { kind };
const heads: TaskKind<AuditHead> = { kind };
const both: TaskKind<AuditSeal | AuditHead> = { kind };

const extents: TaskKind<SealedExtent> = { kind: 'audit-sealed' };

const headName = 'head';
const prefix = 'hour-';
const nameOf = (hour: number): string => `${prefix}${String(hour).padStart(10, '0')}`;

export const beginSealing = (
  metadata: Pick<MetadataStore, 'get' | 'commit'>,
  generation: number,
): Promise<Term> => beginTerm(metadata, heads, generation);

export const findAuditHead = (metadata: Pick<MetadataStore, 'get'>): Promise<Task<AuditHead> | undefined> =>
  findTask(metadata, heads, headName);

export const findAuditSeal = (
  metadata: Pick<MetadataStore, 'get'>,
  hour: number,
): Promise<Task<AuditSeal> | undefined> => findTask(metadata, seals, nameOf(hour));

/** Up to `limit` seals from the one of `hour` on. */
export async function pageAuditSeals(
  metadata: Pick<MetadataStore, 'scan'>,
  { hour, limit }: { readonly hour: number; readonly limit: number },
): Promise<readonly AuditSeal[]> {
  const page = await pageTasks(metadata, seals, { prefix, after: nameOf(hour - 1), limit });
  return page.map(({ state }) => state);
}

/** Writes the head and a seal; refused when one of them has changed, or a later leader has begun. */
export const putAuditSeal = (
  metadata: Pick<MetadataStore, 'commit'>,
  {
    head,
    seal,
    term,
  }: {
    readonly head: { readonly state: AuditHead; readonly expect: 'absent' | Revision };
    readonly seal: { readonly state: AuditSeal; readonly expect: 'absent' | Revision };
    readonly term: Term;
  },
): Promise<Outcome<typeof tasks>> => {
  const changes: readonly TaskChange<AuditSeal | AuditHead>[] = [
    { put: { name: headName, state: head.state }, expect: head.expect },
    { put: { name: nameOf(seal.state.hour), state: seal.state }, expect: seal.expect },
  ];
  return putTasks(metadata, both, { changes, term });
};

export const findSealedExtent = (
  metadata: Pick<MetadataStore, 'get'>,
): Promise<Task<SealedExtent> | undefined> => findTask(metadata, extents, '');

/** Not applied where another leader has changed it. */
export const putSealedExtent = (
  metadata: Pick<MetadataStore, 'commit'>,
  state: SealedExtent,
  expect: 'absent' | Revision,
): Promise<Outcome<typeof tasks>> =>
  putTasks(metadata, extents, { changes: [{ put: { name: '', state }, expect }] });
