/** What PD reports about its stores; the first endpoint that answers in time is used. */
import { request } from 'node:http';
import { request as secureRequest } from 'node:https';
import { type MetadataHealth, type NodeHealth, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { TikvError } from '../../tikv/backoff.ts';
import type { Tls } from '../../tikv/channel.ts';
import type { Collection, Entry, Stretch, TikvClient } from '../../tikv/client.ts';
import type { Transaction } from '../../tikv/transaction.ts';

const endpointMs = 2_000;

interface PdStore {
  readonly store: {
    readonly id: number;
    readonly address?: string;
    readonly version?: string;
    readonly state_name?: string;
    readonly labels?: readonly { readonly key: string; readonly value: string }[];
  };
  readonly status?: {
    readonly leader_count?: number;
    readonly region_count?: number;
    /** Sizes such as `1.95TiB`; `0B` until the store has reported. */
    readonly capacity?: string;
    readonly used_size?: string;
    readonly available?: string;
  };
}

export async function storeHealth(endpoints: readonly string[], tls?: Tls): Promise<MetadataHealth> {
  const faults: string[] = [];
  for (const endpoint of endpoints) {
    try {
      const { stores = [] } = JSON.parse(await fetchStores(endpoint, tls)) as {
        readonly stores?: readonly PdStore[];
      };
      return { nodes: stores.map(toNodeHealth), warnings: imbalances(stores) };
    } catch (cause) {
      faults.push(`${endpoint} (${cause instanceof Error ? cause.message : String(cause)})`);
    }
  }
  return { nodes: [], warnings: [`pd endpoints unreachable: ${faults.join(', ')}`] };
}

/** PD's HTTP interface has the address and TLS of its gRPC. Not `fetch`, which does not accept a private authority. */
function fetchStores(endpoint: string, tls: Tls | undefined): Promise<string> {
  const ask = tls === undefined ? request : secureRequest;
  const scheme = tls === undefined ? 'http' : 'https';
  const signal = AbortSignal.timeout(endpointMs);
  const options = { agent: false, signal, ...tls };
  return new Promise((resolve, reject) => {
    const fail = (cause: Error): void =>
      reject(signal.aborted ? new Error(`no answer within ${endpointMs / 1000} s`, { cause }) : cause);
    const sent = ask(`${scheme}://${endpoint}/pd/api/v1/stores`, options, (answer) => {
      const pieces: Buffer[] = [];
      answer.on('data', (piece: Buffer) => pieces.push(piece));
      answer.on('error', fail);
      answer.on('end', () => {
        if (answer.statusCode === 200) resolve(Buffer.concat(pieces).toString());
        else reject(new Error(`HTTP ${answer.statusCode}`));
      });
    });
    sent.on('error', fail);
    sent.end();
  });
}

function toNodeHealth({ store, status }: PdStore): NodeHealth {
  const label = (name: string): string => store.labels?.find(({ key }) => key === name)?.value ?? 'default';
  return {
    name: store.address ?? `store ${store.id}`,
    dataCenter: label('zone'),
    rack: label('rack'),
    releaseVersion: store.version ?? 'unknown',
    schemaVersion: '1',
    state: (store.state_name ?? 'Up').toUpperCase(),
    ...(readSize(status?.capacity) ? readSizes(status) : {}),
  };
}

function readSizes({
  used_size,
  available,
}: PdStore['status'] = {}): Pick<NodeHealth, 'usedBytes' | 'freeBytes'> {
  const [usedBytes, freeBytes] = [readSize(used_size), readSize(available)];
  return {
    ...(usedBytes === undefined ? {} : { usedBytes }),
    ...(freeBytes === undefined ? {} : { freeBytes }),
  };
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

function readSize(text = ''): number | undefined {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)([KMGTPE]iB|B)$/.exec(text) ?? [];
  return number === undefined ? undefined : Math.round(Number(number) * 1024 ** units.indexOf(unit));
}

/** A live store without leaders serves no reads while its peers do. */
function imbalances(stores: readonly PdStore[]): readonly string[] {
  const live = stores.filter(({ store }) => (store.state_name ?? 'Up') === 'Up');
  const leaders = ({ status }: PdStore): number => status?.leader_count ?? 0;
  if (!live.some((each) => leaders(each) > 0)) return [];
  return live
    .filter((each) => leaders(each) === 0)
    .map(({ store }) => `raft leader imbalance: store ${store.id} has 0 leaders`);
}

// The client's errors translated to those that the metadata port promises.

export interface Cluster {
  now(): Promise<number>;
  get(key: Uint8Array): Promise<Uint8Array | undefined>;
  /** Up to `limit` entries of a stretch, as of now. */
  scan(stretch: Stretch): Promise<readonly Entry[]>;
  transact<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** The id of the region of each key. */
  regionsOf(keys: readonly Uint8Array[]): Promise<readonly bigint[]>;
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
  regionsOf: (keys) => reach(client.regionsOf(keys)),
  collect: (collection) => reach(client.collect(collection)),
  close: () => client.close(),
});
