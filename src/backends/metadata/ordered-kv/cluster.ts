/** The client's errors translated to those that the metadata port promises. */
import { StoreUnavailable } from '../../../ports/metadata-store.ts';
import type { TikvClient } from './tikv/client.ts';
import { TikvError } from './tikv/errors.ts';
import type { Collection } from './tikv/transactions/garbage.ts';
import type { Entry, Stretch } from './tikv/transactions/snapshot.ts';
import type { Transaction } from './tikv/transactions/transaction.ts';

export interface Cluster {
  now(): Promise<number>;
  get(key: Uint8Array): Promise<Uint8Array | undefined>;
  /** Up to `limit` entries of a stretch, as of now. */
  scan(stretch: Stretch): Promise<readonly Entry[]>;
  transact<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** Settles abandoned locks and removes old versions. */
  collect(collection: Collection): Promise<void>;
  close(): Promise<void>;
}

/** No answer, an unknown outcome, or conflicts at every attempt: callers can only retry. */
async function reach<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw cause instanceof TikvError ? new StoreUnavailable(cause.message, { cause }) : cause;
  }
}

export const reaching = (client: TikvClient): Cluster => ({
  now: () => reach(client.now()),
  get: (key) => reach(client.get(key)),
  scan: (stretch) => reach(client.snapshot().then((snapshot) => snapshot.scan(stretch))),
  transact: (work) => reach(client.transact(work)),
  collect: (collection) => reach(client.collect(collection)),
  close: () => client.close(),
});
