/** The fault injector of engines/tikv/double, and its faults. */
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { request as secureRequest } from 'node:https';
import { freePorts } from './ports.ts';
import { startProcess } from './process.ts';
import { built, type Engine, whenReady } from './tikv.ts';

export { noDouble } from './tikv.ts';

export interface Fault {
  /** The command that fails; every command of a store when absent. */
  readonly command?: string;
  readonly kind:
    | 'delay'
    | 'drop'
    | 'lose'
    | 'cut'
    | 'cut-before'
    | 'refuse'
    | 'two-phase'
    | 'not-leader'
    | 'epoch-not-match'
    | 'region-not-found'
    | 'key-not-in-region'
    | 'server-is-busy'
    | 'stale-command'
    | 'store-not-match'
    | 'merging'
    | 'not-synced';
  /** Only commands about this key. */
  readonly key?: Uint8Array;
  readonly address?: string;
  readonly ms?: number;
  /** The number of matching commands before the first fault. */
  readonly skip?: number;
  /** The number of faults; without a limit when absent. */
  readonly count?: number;
}

export interface Lock {
  readonly key: string;
  readonly primary_lock: string;
  readonly lock_version: number;
}

export interface Double extends Engine {
  /** Addresses; the store at index i has the id i + 1. */
  readonly stores: readonly string[];
  fault(fault: Fault): Promise<void>;
  /** The number of times that each fault has happened, in the order in which the faults were set. */
  hits(): Promise<readonly number[]>;
  heal(): Promise<void>;
  split(key: Uint8Array): Promise<void>;
  merge(key: Uint8Array): Promise<void>;
  /** Moves the leader of a key's region to a store; by default to the next one. */
  lead(key: Uint8Array, store?: number): Promise<void>;
  stopStore(store: number, options?: { readonly handOver?: boolean }): Promise<void>;
  startStore(store: number): Promise<void>;
  /** Changes a placement driver, through the first one. */
  driver(
    address: string,
    change: { readonly up?: 0 | 1; readonly lead?: 1; readonly via?: string },
  ): Promise<void>;
  /** Splits, merges and moves leaders at this interval, until called with 0. */
  chaos(ms: number, seed?: number): Promise<void>;
  locks(): Promise<readonly Lock[]>;
  regions(): Promise<number>;
  signal(name: NodeJS.Signals): void;
}

export interface TlsFiles {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export interface DoubleOptions {
  readonly drivers?: number;
  readonly stores?: number;
  /** Paths of its certificate and key, and of the CA of its clients. */
  readonly tls?: TlsFiles;
}

export async function startDouble({ drivers = 1, stores = 3, tls }: DoubleOptions = {}): Promise<Double> {
  const binary = await built('double');
  const addresses = (await freePorts(drivers + stores)).map((port) => `127.0.0.1:${port}`);
  const endpoints = addresses.slice(0, drivers);
  const storeAddresses = addresses.slice(drivers);
  const secure = tls === undefined ? [] : ['-cert', tls.cert, '-key', tls.key, '-ca', tls.ca];
  const args = ['-pd', endpoints.join(','), '-stores', storeAddresses.join(','), ...secure];
  const running = startProcess(binary, args);
  const send = senderOf(tls);
  const [first = ''] = endpoints;
  const post = async (path: string, fields: Readonly<Record<string, string | number>>, via = first) => {
    const form = new URLSearchParams(Object.entries(fields).map(([name, value]) => [name, String(value)]));
    await send('POST', `${via}${path}?${form}`);
  };
  try {
    await whenReady(first, running.ended, (url) => send('GET', url));
  } catch (error) {
    await running.kill9();
    throw error;
  }
  return {
    endpoints,
    stores: storeAddresses,
    fault: async ({ key, ...rest }) => {
      const fault = { ...rest, ...(key === undefined ? {} : { key: hex(key) }) };
      await send('POST', `${first}/dev/faults`, JSON.stringify(fault));
    },
    hits: async () =>
      (JSON.parse(await send('GET', `${first}/dev/faults`)) as { hits: number }[]).map(({ hits }) => hits),
    heal: async () => void (await send('DELETE', `${first}/dev/faults`)),
    split: (key) => post('/dev/split', { key: hex(key) }),
    merge: (key) => post('/dev/merge', { key: hex(key) }),
    lead: (key, store = 0) => post('/dev/leader', { key: hex(key), store }),
    stopStore: (id, { handOver = false } = {}) =>
      post('/dev/store', { id, up: 0, handover: handOver ? 1 : 0 }),
    startStore: (id) => post('/dev/store', { id, up: 1 }),
    driver: (address, { via, ...change }) => post('/dev/driver', { address, ...change }, via),
    chaos: (ms, seed = 1) => post('/dev/chaos', { ms, seed }),
    locks: async () => JSON.parse(await send('GET', `${first}/dev/locks`)) as Lock[],
    regions: async () => (JSON.parse(await send('GET', `${first}/dev/regions`)) as unknown[]).length,
    signal: (name) => running.signal(name),
    [Symbol.asyncDispose]: () => running.kill9(),
  };
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

type Send = (method: string, url: string, body?: string) => Promise<string>;

/** Its HTTP interface has the same port and TLS as its gRPC. */
function senderOf(tls: TlsFiles | undefined): Send {
  const files =
    tls === undefined
      ? {}
      : { ca: readFileSync(tls.ca), cert: readFileSync(tls.cert), key: readFileSync(tls.key) };
  const ask = tls === undefined ? request : secureRequest;
  return (method, url, body) =>
    new Promise((resolve, reject) => {
      const sent = ask(
        `${tls === undefined ? 'http' : 'https'}://${url}`,
        { method, agent: false, ...files },
        (answer) => {
          const pieces: Buffer[] = [];
          answer.on('data', (piece: Buffer) => pieces.push(piece));
          answer.on('error', reject);
          answer.on('end', () => {
            const text = Buffer.concat(pieces).toString();
            if ((answer.statusCode ?? 500) < 300) resolve(text);
            else reject(new Error(`${method} ${url}: ${answer.statusCode} ${text}`));
          });
        },
      );
      sent.on('error', reject);
      sent.end(body);
    });
}
