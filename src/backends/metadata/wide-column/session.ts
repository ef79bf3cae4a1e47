/**
 * The driver as this backend uses it; its one import. Plain writes carry timestamps of the cluster's clock, as this
 * process estimates it, because the clocks of gateways may be minutes apart and the later write must win.
 */
import cassandra from 'cassandra-driver';
import { StoreUnavailable } from '../../../ports/metadata-store.ts';
import type { RawRow } from './rows.ts';

const { Client, policies, types } = cassandra;

export interface SessionOptions {
  /** `host` or `host:port`. */
  readonly hosts: readonly string[];
  readonly localDc: string;
  readonly keyspace: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls?: object | undefined;
  /** Statements that take longer are told to `onSlow`; 0 or absent: none is. */
  readonly slowMs?: number;
  readonly onSlow?: (query: string, ms: number) => void;
}

export interface Statement {
  readonly query: string;
  readonly params: unknown[];
}

/** A conditional batch was sent, and whether it was applied is not known. */
export class UnknownOutcome extends Error {}

const readMs = 15_000;
/** How old an estimate of the cluster's clock may be. */
const clockMs = 30_000;

export class Session {
  readonly #client: cassandra.Client;
  #offset: { readonly ms: number; readonly at: number } | undefined;
  #measuring: Promise<number> | undefined;
  #lastStamp = 0n;
  readonly #slowMs: number;
  readonly #onSlow: (query: string, ms: number) => void;

  constructor({ hosts, localDc, username, password, tls, slowMs = 0, onSlow = () => {} }: SessionOptions) {
    this.#slowMs = slowMs;
    this.#onSlow = onSlow;
    this.#client = new Client({
      contactPoints: [...hosts],
      localDataCenter: localDc,
      ...(username === undefined ? {} : { credentials: { username, password: password ?? '' } }),
      ...(tls === undefined ? {} : { sslOptions: tls }),
      queryOptions: {
        consistency: types.consistencies.localQuorum,
        serialConsistency: types.consistencies.localSerial,
        prepare: true,
      },
      encoding: { useBigIntAsLong: true },
      socketOptions: { readTimeout: readMs },
      policies: {
        // Whether a write may be repeated is ours to know.
        retry: new policies.retry.FallthroughRetryPolicy(),
        // A stamp of the driver's clock would be this gateway's.
        timestampGeneration: null as never,
      },
    });
  }

  async connect(): Promise<void> {
    await reach(this.#client.connect());
  }

  /** Statements without parameters and without preparation: definitions, and questions to the system tables. */
  async run(query: string): Promise<readonly RawRow[]> {
    return (await reach(this.#client.execute(query, [], { prepare: false }))).rows as unknown as RawRow[];
  }

  async read(query: string, params: unknown[], { serial = false } = {}): Promise<readonly RawRow[]> {
    const consistency = serial ? types.consistencies.localSerial : types.consistencies.localQuorum;
    const found = await this.#timed(
      query,
      this.#client.execute(query, params, {
        prepare: true,
        consistency,
        isIdempotent: true,
        fetchSize: 10_000,
      }),
    );
    return found.rows as unknown as RawRow[];
  }

  /** A plain write of one or several rows, all of them or, should the cluster fail, in the end all of them. */
  async write(statements: readonly Statement[]): Promise<void> {
    const [only] = statements;
    if (only === undefined) return;
    if (statements.length === 1) {
      const written = this.#client.execute(only.query, only.params, { prepare: true, isIdempotent: true });
      await this.#timed(only.query, written);
      return;
    }
    await reach(this.#client.batch([...statements], { prepare: true, logged: true, isIdempotent: true }));
  }

  /**
   * A conditional batch in one partition.
   * @returns whether it was applied
   * @throws UnknownOutcome
   */
  async decide(statements: readonly Statement[]): Promise<boolean> {
    try {
      const started = performance.now();
      const outcome = await this.#client.batch([...statements], { prepare: true, logged: false });
      this.#tell(statements[0]?.query ?? '', started);
      return outcome.wasApplied();
    } catch (cause) {
      if (isRefusedUndone(cause)) throw new StoreUnavailable(messageOf(cause), { cause });
      throw new UnknownOutcome(messageOf(cause), { cause });
    }
  }

  async #timed<T>(query: string, work: Promise<T>): Promise<T> {
    const started = performance.now();
    const result = await reach(work);
    this.#tell(query, started);
    return result;
  }

  #tell(query: string, started: number): void {
    const ms = performance.now() - started;
    if (this.#slowMs > 0 && ms > this.#slowMs) this.#onSlow(query, ms);
  }

  /** The cluster's clock, in ms since the epoch. */
  async now(): Promise<number> {
    const local = performance.now();
    if (this.#offset === undefined || local - this.#offset.at > clockMs) {
      this.#measuring ??= this.#measure().finally(() => {
        this.#measuring = undefined;
      });
      // An old estimate does while a new one is made; without any, everybody waits.
      if (this.#offset === undefined) await this.#measuring;
      else this.#measuring.catch(() => undefined);
    }
    return Math.round(performance.now() + (this.#offset?.ms ?? 0));
  }

  /** A stamp for plain writes, in µs: of two that this process draws the later one is larger. */
  async stamp(): Promise<bigint> {
    const now = BigInt(await this.now()) * 1000n;
    this.#lastStamp = now > this.#lastStamp ? now : this.#lastStamp + 1n;
    return this.#lastStamp;
  }

  async #measure(): Promise<number> {
    const before = performance.now();
    const [row] = await this.run('SELECT toUnixTimestamp(now()) AS ms FROM system.local');
    const after = performance.now();
    const ms = Number(row?.['ms']) - (before + after) / 2;
    this.#offset = { ms, at: after };
    return ms;
  }

  /** Both questions are asked of the same host: two would each leave itself out of its peers. */
  async probe(
    localQuery: string,
    peersQuery: string,
  ): Promise<{ readonly local: readonly RawRow[]; readonly peers: readonly RawRow[] }> {
    const [host] = this.#client.hosts.values().filter((each) => each.isUp());
    const options = {
      prepare: false,
      consistency: types.consistencies.localOne,
      ...(host === undefined ? {} : { host }),
    };
    const [local, peers] = await reach(
      Promise.all([
        this.#client.execute(localQuery, [], options),
        this.#client.execute(peersQuery, [], options),
      ]),
    );
    return { local: local.rows as unknown as RawRow[], peers: peers.rows as unknown as RawRow[] };
  }

  async close(): Promise<void> {
    await this.#client.shutdown();
  }
}

async function reach<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw isOurFault(cause) ? cause : new StoreUnavailable(messageOf(cause), { cause });
  }
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));
const codeOf = (cause: unknown): number | undefined =>
  cause instanceof cassandra.errors.ResponseError ? cause.code : undefined;

const { responseErrorCodes } = types;
/** The server would refuse it whenever it came. */
const isOurFault = (cause: unknown): boolean => {
  const code = codeOf(cause);
  return (
    cause instanceof TypeError ||
    cause instanceof cassandra.errors.ArgumentError ||
    code === responseErrorCodes.syntaxError ||
    code === responseErrorCodes.invalid ||
    code === responseErrorCodes.alreadyExists
  );
};
/** Nothing of it can have happened. */
const isRefusedUndone = (cause: unknown): boolean => {
  const code = codeOf(cause);
  return (
    isOurFault(cause) ||
    code === responseErrorCodes.unavailableException ||
    code === responseErrorCodes.overloaded ||
    code === responseErrorCodes.isBootstrapping
  );
};
