/** The port of a RADOS client, whatever implements it (docs/adr, the RADOS driver). */

/** How to reach a cluster: by a configuration file, by addresses, or both; the values here take precedence. */
export interface ClusterAddress {
  /** The gateway's own name of the cluster, for messages. */
  readonly id: string;
  readonly conf?: string | undefined;
  readonly monHosts?: string | undefined;
  /** With its type, as in `client.sluice`. */
  readonly user: string;
  /** A file; by the configuration's own rules when absent. */
  readonly keyring?: string | undefined;
  readonly opTimeoutMs: number;
  readonly monTimeoutMs: number;
}

/** The CRC32C of an array on its own, not continued from another. */
export type Crc32c = (bytes: Uint8Array) => number;

export interface RadosDriver {
  /** The fastest that there is. */
  readonly crc32c: Crc32c;
  /** Takes until the monitor timeout if no monitor answers. */
  connect(address: ClusterAddress): Promise<RadosCluster>;
}

export interface RadosCluster {
  /** The id that a pool has until it is deleted; undefined where there is none. */
  poolId(name: string): Promise<number | undefined>;
  /** Rejected with `missing` when there is no pool of this id. */
  pool(id: number, namespace: string): Promise<RadosPool>;
  /** A command to the monitors, such as `{ prefix: 'status', format: 'json' }`. @returns what they say */
  command(command: Readonly<Record<string, string>>): Promise<string>;
  /** Ends what is under way; what was promised is rejected. */
  close(): Promise<void>;
}

export interface RadosWriteOptions {
  /** Refused with `exists` when there is an object of this name. */
  readonly isNew: boolean;
  /** Refused with `canceled` when the attribute of the object is another. */
  readonly expected?: Uint8Array;
  /** The size of the whole object, where it is known. */
  readonly size: number;
}

/** A prepared write, which must be run or dropped. */
export interface RadosWrite {
  /** Copies the bytes; offsets must increase. */
  add(bytes: Uint8Array, offset: number): void;
  /**
   * Writes everything that was added, and the object's attribute where it is given, or nothing; durable on return. It cannot be used
   * again, whatever the outcome.
   */
  run(attribute?: Uint8Array): Promise<void>;
  drop(): void;
}

export interface RadosRead {
  readonly done: Promise<{ readonly length: number; readonly attribute?: Uint8Array }>;
  /** Makes `done` reject soon, whatever the cluster does. */
  cancel(): void;
}

/** A pool, or a namespace in it. Everything it promises it rejects with a `RadosFailure`. */
export interface RadosPool {
  /** Every piece of an object except the last must be a multiple of it: more than 1 where a pool is erasure-coded. */
  readonly alignment: number;
  write(name: string, options: RadosWriteOptions): RadosWrite;
  /**
   * Reads up to the end of `into` or of the object. `into` must not change until `done` is settled. Where the caller asks for the
   * attribute, it is of the same moment.
   */
  read(
    name: string,
    into: Uint8Array,
    options: { readonly offset: number; readonly wantsAttribute: boolean },
  ): RadosRead;
  /** An empty array when the object has none. */
  attribute(name: string): Promise<Uint8Array>;
  /** Durable when it is done. */
  remove(name: string): Promise<void>;
  /** The names of all objects, page by page, in no set order. */
  names(): AsyncIterable<readonly string[]>;
  stats(): Promise<{ readonly bytesUsed: number; readonly objects: number }>;
  close(): Promise<void>;
}

/** Linux' numbers of errors that we tell apart. */
export const errno = {
  notPermitted: 1,
  missing: 2,
  io: 5,
  noAccess: 13,
  exists: 17,
  invalid: 22,
  noSpace: 28,
  notSupported: 95,
  notConnected: 107,
  shutDown: 108,
  timedOut: 110,
  quota: 122,
  canceled: 125,
} as const;

export class RadosFailure extends Error {
  readonly code: number;

  constructor(what: string, code: number) {
    super(`${what}: ${errorName(code)}`);
    this.code = code;
  }
}

const names: Readonly<Record<number, string>> = {
  [errno.notPermitted]: 'not permitted',
  [errno.missing]: 'not there',
  [errno.io]: 'input/output error',
  [errno.noAccess]: 'access denied',
  [errno.exists]: 'exists already',
  [errno.invalid]: 'invalid argument',
  [errno.noSpace]: 'the cluster or pool is full',
  [errno.notSupported]: 'not supported, as when cephx refuses the user and its key',
  [errno.notConnected]: 'not connected',
  [errno.shutDown]: 'this client was put on the blocklist',
  [errno.timedOut]: 'no answer in time',
  [errno.quota]: 'the quota of the pool is used up',
  [errno.canceled]: 'canceled',
};

const errorName = (code: number): string => names[code] ?? `error ${code}`;

/** The object or the pool does not exist. */
export const isMissing = (error: unknown): boolean =>
  error instanceof RadosFailure && error.code === errno.missing;

/** librados or what calls it is not on this machine. */
export class DriverMissing extends Error {}
