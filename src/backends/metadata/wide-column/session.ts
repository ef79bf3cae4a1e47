/**
 * The driver as this backend uses it. Plain writes carry timestamps of the cluster's clock, as this
 * process estimates it, because the clocks of gateways may be minutes apart and the later write must win.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import cassandra from 'cassandra-driver';
import { StoreRefused, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { ClusterClock, type NodeClock } from './cluster-clock.ts';
import type { RawRow } from './rows.ts';

const { Client, types } = cassandra;
const { ExponentialReconnectionPolicy } = cassandra.policies.reconnection;

interface Tls {
  /** The trusted certificate authorities; the system's unless given. */
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
  /** The name that the certificate of every node must have; for each its address unless given. */
  readonly serverName?: string;
}

export interface SessionOptions {
  /** `host` or `host:port`. */
  readonly hosts: readonly string[];
  readonly localDc: string;
  readonly keyspace: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls?: Tls | undefined;
  /** Statements that take longer are reported to `onSlow`; 0 or absent: none. */
  readonly slowMs?: number;
  readonly onSlow?: (query: string, ms: number) => void;
}

/** Whose quorum reads, writes and decides: that of the local data center, or that of all replicas (schema.ts). */
export type SerialScope = 'local' | 'global';

export interface Statement {
  readonly query: string;
  readonly params: unknown[];
}

/** A node that is connected. */
interface SchemaNode {
  readonly host: cassandra.Host;
}

/** A conditional batch was sent, and whether it was applied is unknown. */
export class UnknownOutcome extends Error {}
/** The cluster gave up on a read, although its replicas answered. */
export class ReadFailed extends StoreUnavailable {}
/** A definition was taken, and not every node has heard of it yet. */
export class Disagreement extends StoreUnavailable {}

/** The timeout for one node; longer than its own timeouts, after which it reports that others do not answer. */
const answerMs = 12_000;
/** Longer for a definition: every node has to hear of it. */
const defineMs = 60_000;
/** How long the nodes of a cluster may take to exchange a new schema, and how often this is checked. */
const agreementMs = 10_000;
const agreementPollMs = 200;
/** Shorter for health queries, which must report a host that hangs. */
const probeMs = 5_000;
/** For questions that can go without the answer of a node. */
const askMs = 2_000;
/** Nodes whose clocks are read. */
const clocksMax = 5;
/** A connection with this many unanswered statements is closed, and its node avoided. */
const defunctAfter = 2;
/** Interval of heartbeats on an idle connection. */
const heartBeatMs = 5000;
/** Pauses between attempts to reach a node that is down. The driver's own grow to ten minutes, in which a node that is back is not used. */
const reconnectMs = 500;
const reconnectMaxMs = 5_000;
/** A read that takes so long is also sent to another node. */
const speculateMs = 500;
/** Attempts of a serial read under contention, and the growth of the pause between them. */
const crowdedMax = 6;
const crowdedMs = 50;

const { localQuorum, localSerial, quorum, serial: globalSerial } = types.consistencies;
const levels = {
  local: { consistency: localQuorum, serialConsistency: localSerial },
  global: { consistency: quorum, serialConsistency: globalSerial },
} as const satisfies Record<SerialScope, object>;

const defaultPort = 9042;

/** The port of the first host, or the usual one. */
const parsePort = ([first = '']: readonly string[]): number => {
  const [, port] = /^(?:\[.*\]|[^:]*):(\d+)$/.exec(first) ?? [];
  return port === undefined ? defaultPort : Number(port);
};

interface PageAsked {
  readonly count: number;
  readonly pageState: string | undefined;
}

export class Session {
  readonly localDc: string;
  /** The user that it logs in as. */
  readonly role: string | undefined;
  /** The data centers whose quorum reads, writes and decides; all of them until the scope of the gateways is known. */
  scope: SerialScope = 'global';
  readonly #client: cassandra.Client;
  readonly clock = new ClusterClock(() => this.#nodeClocks());
  readonly #queue = new StatementQueue();
  readonly #slowMs: number;
  readonly #onSlow: (query: string, ms: number) => void;

  constructor({ hosts, localDc, username, password, tls, slowMs = 0, onSlow = () => {} }: SessionOptions) {
    this.localDc = localDc;
    this.role = username;
    this.#slowMs = slowMs;
    this.#onSlow = onSlow;
    this.#client = new Client({
      contactPoints: [...hosts],
      localDataCenter: localDc,
      // The driver uses it as the port of every node that it discovers.
      protocolOptions: {
        port: parsePort(hosts),
        // `awaitAgreement` waits once for many definitions; the driver would wait after each.
        maxSchemaAgreementWaitSeconds: 0,
      },
      ...(username === undefined ? {} : { credentials: { username, password: password ?? '' } }),
      ...(tls === undefined ? {} : { sslOptions: toSslOptions(tls) }),
      queryOptions: { prepare: true },
      encoding: { useBigIntAsLong: true },
      socketOptions: { readTimeout: answerMs, defunctReadTimeoutThreshold: defunctAfter },
      pooling: { heartBeatInterval: heartBeatMs },
      policies: {
        retry: new SafeRetries(),
        reconnection: new ExponentialReconnectionPolicy(reconnectMs, reconnectMaxMs, false),
        speculativeExecution: speculativeReads(speculateMs),
        // A stamp of the driver's clock would be this gateway's.
        timestampGeneration: null as never,
      },
    });
  }

  /** @throws StoreRefused where every node that was reached refuses this gateway, or has a wrong certificate */
  async connect(): Promise<void> {
    try {
      await this.#client.connect();
    } catch (cause) {
      const why = refusalIn(cause);
      throw why === undefined
        ? new StoreUnavailable(describeError(cause), { cause })
        : new StoreRefused(why, { cause });
    }
  }

  /** Statements without parameters and without preparation: definitions, and questions to the system tables. */
  async run(query: string): Promise<readonly RawRow[]> {
    const sent = this.#queue.run(() => this.#client.execute(query, [], { prepare: false }));
    return (await reach(sent)).rows as unknown as RawRow[];
  }

  /**
   * The number of nodes in each data center, including those that are down, as one node reports it now. The driver's own list can miss a
   * node permanently, because it reads the list first and registers for events afterwards.
   */
  async nodes(): Promise<ReadonlyMap<string, number>> {
    const [host] = this.#client.getState().getConnectedHosts();
    const options = { prepare: false, ...(host === undefined ? {} : { host }) };
    const centers = (table: string) =>
      reach(this.#client.execute(`SELECT data_center FROM system.${table}`, [], options));
    const nodes = new Map<string, number>();
    for (const { rows } of [await centers('local'), await centers('peers')])
      for (const row of rows) {
        // A joining node has a row before its data center is known.
        const center = row['data_center'] as string | null;
        if (center !== null) nodes.set(center, (nodes.get(center) ?? 0) + 1);
      }
    return nodes;
  }

  /** The same nodes for every gateway, as far as these are connected, so that their estimates of the time agree. */
  #nodeClocks(): NodeClock[] {
    const hosts = this.#client.getState().getConnectedHosts();
    return hosts
      .sort((a, b) => (a.address < b.address ? -1 : 1))
      .slice(0, clocksMax)
      .map((host) => ({
        node: hostAddress(host),
        read: async () => {
          const query = 'SELECT toUnixTimestamp(now()) AS ms FROM system.local';
          const [row] = await reach(this.#askNode(host, query));
          return Number(row?.['ms']);
        },
      }));
  }

  /** The answer of this node itself. */
  async #askNode(host: cassandra.Host, query: string): Promise<readonly RawRow[]> {
    const retry = new cassandra.policies.retry.FallthroughRetryPolicy();
    const options = { prepare: false, consistency: types.consistencies.localOne, host, retry };
    const limits = { readTimeout: askMs, fetchSize: 10_000 };
    const { rows } = await this.#client.execute(query, [], { ...options, ...limits });
    return rows as unknown as RawRow[];
  }

  /** The node that executes a series of schema definitions. */
  pickNode(): SchemaNode {
    const [host] = this.#client.getState().getConnectedHosts();
    if (host === undefined) throw new StoreUnavailable('no node is connected');
    return { host };
  }

  /**
   * Executes a schema definition on one node. The other nodes get it by gossip, about a second later, so a definition that builds on
   * another one goes to the same node, and `awaitAgreement` follows the last one.
   */
  async define(query: string, { host }: SchemaNode): Promise<void> {
    await reach(this.#client.execute(query, [], { prepare: false, readTimeout: defineMs, host }));
  }

  /** Returns when every node that is up has the same schema. @throws Disagreement after 10 s */
  async awaitAgreement(): Promise<void> {
    for (
      const until = performance.now() + agreementMs;
      !(await this.isAgreed());
      await sleep(agreementPollMs)
    )
      if (performance.now() > until) throw new Disagreement('the nodes do not agree on the schema');
  }

  /** Whether every node that is up has the same schema: a change that one node has applied may not have reached the others. */
  async isAgreed(): Promise<boolean> {
    // The driver's types do not know of it.
    const metadata = this.#client.metadata as unknown as { checkSchemaAgreement(): Promise<boolean> };
    return metadata.checkSchemaAgreement();
  }

  async read(
    query: string,
    params: unknown[],
    { serial = false, scope = this.scope }: { readonly serial?: boolean; readonly scope?: SerialScope } = {},
  ): Promise<readonly RawRow[]> {
    if (!serial) return this.#read(query, params, levels[scope].consistency);
    // Under contention in a partition a node gives up early, so the statement is retried.
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#read(query, params, levels[scope].serialConsistency);
      } catch (cause) {
        if (tries >= crowdedMax || !isCrowded((cause as Error).cause)) throw cause;
        await sleep(crowdedMs * tries);
      }
    }
  }

  async #read(query: string, params: unknown[], consistency: number): Promise<readonly RawRow[]> {
    const found = await this.#timed(query, () =>
      this.#client.execute(query, params, {
        prepare: true,
        consistency,
        isIdempotent: true,
        fetchSize: 10_000,
      }),
    );
    return found.rows as unknown as RawRow[];
  }

  /** Some rows, and where the next ones begin. */
  async readPage(query: string, params: unknown[], { count, pageState }: PageAsked) {
    const options = { ...levels[this.scope], prepare: true, isIdempotent: true, fetchSize: count };
    const from = pageState === undefined ? {} : { pageState };
    const found = await this.#timed(query, () =>
      this.#client.execute(query, params, { ...options, ...from }),
    );
    return { rows: found.rows as unknown as RawRow[], pageState: found.pageState ?? undefined };
  }

  /** All rows, however many the answer has to be cut into. */
  async readAll(query: string, params: unknown[]): Promise<readonly RawRow[]> {
    const rows: RawRow[] = [];
    let pageState: string | undefined;
    do {
      const page = await this.readPage(query, params, { count: 5000, pageState });
      rows.push(...page.rows);
      pageState = page.pageState;
    } while (pageState !== undefined);
    return rows;
  }

  /** A plain write of one or several rows, all of them or, should the cluster fail, in the end all of them. */
  async write(statements: readonly Statement[]): Promise<void> {
    const [only] = statements;
    if (only === undefined) return;
    if (statements.length === 1) {
      const options = { ...levels[this.scope], prepare: true, isIdempotent: true };
      await this.#timed(only.query, () => this.#client.execute(only.query, only.params, options));
      return;
    }
    const options = { ...levels[this.scope], prepare: true, logged: true, isIdempotent: true };
    await this.#timed(only.query, () => this.#client.batch([...statements], options));
  }

  /**
   * A conditional batch in one partition.
   * @returns whether it was applied
   * @throws UnknownOutcome
   */
  async decide(
    statements: readonly Statement[],
    { scope = this.scope }: { readonly scope?: SerialScope } = {},
  ): Promise<boolean> {
    try {
      const options = { ...levels[scope], prepare: true, logged: false };
      const send = () => this.#client.batch([...statements], options);
      return (await this.#reported(statements[0]?.query ?? '', send)).wasApplied();
    } catch (cause) {
      if (isRefusedUndone(cause)) throw new StoreUnavailable(describeError(cause), { cause });
      throw new UnknownOutcome(describeError(cause), { cause });
    }
  }

  /**
   * The columns in the condition of a statement whose condition never holds: a serial read of these alone.
   * @returns a row that lacks these columns where the partition has nothing
   */
  async readCondition({ query, params }: Statement): Promise<RawRow | undefined> {
    const options = { ...levels[this.scope], prepare: true, isIdempotent: true };
    const { rows } = await this.#timed(query, () => this.#client.execute(query, params, options));
    return rows[0] as unknown as RawRow | undefined;
  }

  #timed<T>(query: string, send: () => Promise<T>): Promise<T> {
    return reach(this.#reported(query, send));
  }

  /** Reports slow statements, those without an answer included. */
  async #reported<T>(query: string, send: () => Promise<T>): Promise<T> {
    const started = performance.now();
    try {
      return await this.#queue.run(send);
    } finally {
      const ms = performance.now() - started;
      if (this.#slowMs > 0 && ms > this.#slowMs) this.#onSlow(query, ms);
    }
  }

  /**
   * Both queries go to the same host: two would each leave itself out of its peers.
   * @returns the rows, and the addresses of the nodes that this process cannot reach
   */
  async probe(
    localQuery: string,
    peersQuery: string,
  ): Promise<{
    readonly local: readonly RawRow[];
    readonly peers: readonly RawRow[];
    readonly down: ReadonlySet<string>;
  }> {
    const hosts = this.#client.hosts.values();
    const host = hosts.find((each) => each.isUp());
    const options = {
      prepare: false,
      consistency: types.consistencies.localOne,
      readTimeout: probeMs,
      ...(host === undefined ? {} : { host }),
    };
    const [local, peers] = await reach(
      Promise.all([
        this.#client.execute(localQuery, [], options),
        this.#client.execute(peersQuery, [], options),
      ]),
    );
    const down = hosts.filter((each) => !each.isUp()).map(hostAddress);
    return {
      local: local.rows as unknown as RawRow[],
      peers: peers.rows as unknown as RawRow[],
      down: new Set(down),
    };
  }

  /**
   * Asks every connected node for its own virtual table: each has rows of the node that answers.
   * @returns rows by the address of the node; the error of a node that refuses, or does not answer within two seconds
   */
  async askEach(query: string): Promise<ReadonlyMap<string, readonly RawRow[] | Error>> {
    const hosts = this.#client.getState().getConnectedHosts();
    const answers = hosts.map(async (host): Promise<readonly [string, readonly RawRow[] | Error]> => {
      const answer = await this.#askNode(host, query).catch((cause: unknown) =>
        cause instanceof Error ? cause : new Error(String(cause)),
      );
      return [hostAddress(host), answer];
    });
    return new Map(await Promise.all(answers));
  }

  async close(): Promise<void> {
    await this.#client.shutdown();
  }
}

/** Without its port. */
const hostAddress = ({ address }: Pick<cassandra.Host, 'address'>): string => address.replace(/:\d+$/, '');

async function reach<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (isOurFault(cause)) throw cause;
    const Failure = responseCode(cause) === responseErrorCodes.readFailure ? ReadFailed : StoreUnavailable;
    throw new Failure(describeError(cause), { cause });
  }
}

/** Verification must be requested, because the driver accepts any certificate by default. */
const toSslOptions = ({ serverName, ...parts }: Tls): object => ({
  ...parts,
  rejectUnauthorized: true,
  ...(serverName === undefined ? {} : { servername: serverName }),
});

const { AuthenticationError, ArgumentError, BusyConnectionError, NoHostAvailableError } = cassandra.errors;

/** A driver that is closing has tried no host, and then there are no inner errors. */
const errorsByHost = ({ innerErrors }: InstanceType<typeof NoHostAvailableError>) =>
  (innerErrors ?? {}) as Record<string, Error & { readonly code?: unknown }>;

/** Whether replicas answered but did not agree in time. */
function isCrowded(cause: unknown): boolean {
  const causes = cause instanceof NoHostAvailableError ? Object.values(errorsByHost(cause)) : [cause];
  const codes = causes.map(responseCode);
  return codes.some(
    (code) => code === responseErrorCodes.writeTimeout || code === responseErrorCodes.readTimeout,
  );
}

/** Why no node will ever accept this gateway; undefined where one of them might later. */
function refusalIn(cause: unknown): string | undefined {
  // The data center is not one of the cluster's.
  if (cause instanceof ArgumentError) return cause.message;
  if (!(cause instanceof NoHostAvailableError)) return undefined;
  const reasons = Object.entries(errorsByHost(cause));
  const isFinal = ([, why]: (typeof reasons)[number]): boolean =>
    why instanceof AuthenticationError || tlsFault.test(`${why.code} ${why.message}`);
  if (reasons.length === 0 || !reasons.every(isFinal)) return undefined;
  return reasons.map(([host, { message }]) => `${host}: ${message}`).join('; ');
}

/** The error codes of OpenSSL and node for a certificate that is invalid or missing. */
const tlsFault = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_SSL|ERR_TLS/;

// The driver's policies for a slow or dead node: which statements are retried, and on which node.

const { retry } = cassandra.policies;

type Speculation = cassandra.policies.speculativeExecution.SpeculativeExecutionPolicy;
type Info = Parameters<cassandra.policies.retry.RetryPolicy['onRequestError']>[0];
type Decision = ReturnType<cassandra.policies.retry.RetryPolicy['onRequestError']>;

/** Times that one statement is sent again. */
const retriesMax = 2;

/**
 * Sends what is safe to repeat again, to the next node: reads, and plain writes, which carry their stamp. The driver does not ask
 * about the others, save for one that a node refused because too few replicas are up: of that nothing has happened.
 */
export class SafeRetries extends retry.RetryPolicy {
  override onRequestError(info: Info): Decision {
    return this.#again(info);
  }

  override onReadTimeout(info: Info): Decision {
    return this.#again(info);
  }

  override onWriteTimeout(info: Info): Decision {
    return this.#again(info);
  }

  override onUnavailable(info: Info): Decision {
    return info.nbRetry > 0 ? this.rethrowResult() : this.#next();
  }

  /** At the same consistency, which the driver's types require as an argument. */
  #next(): Decision {
    return this.retryResult(undefined as never, false);
  }

  #again(info: Info): Decision {
    return info.nbRetry >= retriesMax ? this.rethrowResult() : this.#next();
  }
}

/** Sends a read to a second node when the first takes long; one further node at a time. */
export const speculativeReads = (delayMs: number): Speculation => ({
  init() {},
  shutdown() {},
  getOptions: () => new Map(),
  newPlan(_keyspace, query) {
    let sent = 0;
    const isRead = typeof query === 'string' && query.startsWith('SELECT ');
    return {
      nextExecution() {
        sent += 1;
        return isRead && sent === 1 ? delayMs : -1;
      },
    };
  },
});

// What an error of the driver says about the statement that it is for.

export const describeError = (cause: unknown): string =>
  cause instanceof Error ? cause.message : String(cause);
export const responseCode = (cause: unknown): number | undefined =>
  cause instanceof cassandra.errors.ResponseError ? cause.code : undefined;

export const { responseErrorCodes } = cassandra.types;
/** The server would refuse the statement at any time. */
const isOurFault = (cause: unknown): boolean => {
  const code = responseCode(cause);
  return (
    cause instanceof TypeError ||
    cause instanceof cassandra.errors.ArgumentError ||
    code === responseErrorCodes.syntaxError ||
    code === responseErrorCodes.invalid ||
    code === responseErrorCodes.alreadyExists
  );
};
/** The statement cannot have had any effect. */
const isRefusedUndone = (cause: unknown): boolean => {
  const code = responseCode(cause);
  return (
    isOurFault(cause) ||
    // The queue's: it was not sent.
    cause instanceof StoreUnavailable ||
    code === responseErrorCodes.unavailableException ||
    code === responseErrorCodes.overloaded ||
    code === responseErrorCodes.isBootstrapping
  );
};

// Statements that wait because each connection has as many unanswered ones as the driver allows.

/** How long a statement waits before it is sent. */
const sendWaitMaxMs = answerMs;
/** This bounds the memory of what waits. */
const waitingMax = 8192;
/** A statement is sent when another one has ended. More are sent so often, because connections may have become free in other ways. */
const sendRetryMs = 100;
const perRetry = 64;

interface Waiting {
  readonly until: number;
  readonly send: () => void;
  readonly fail: (cause: StoreUnavailable) => void;
}

class StatementQueue {
  /** The next one first. */
  readonly #waiting: Waiting[] = [];
  #timer: NodeJS.Timeout | undefined;

  /**
   * Sends a statement, as soon as a node takes it.
   * @throws StoreUnavailable where it was not sent: too many wait, or it has waited too long
   */
  async run<T>(send: () => Promise<T>): Promise<T> {
    const until = performance.now() + sendWaitMaxMs;
    let hasWaited = this.#waiting.length > 0;
    if (hasWaited) await this.#wait(until, { isNext: false });
    for (;;) {
      try {
        const result = await send();
        this.#sendNext(1);
        return result;
      } catch (cause) {
        if (!isBusy(cause)) {
          this.#sendNext(1);
          throw cause;
        }
      }
      await this.#wait(until, { isNext: hasWaited });
      hasWaited = true;
    }
  }

  #wait(until: number, { isNext }: { readonly isNext: boolean }): Promise<void> {
    if (!isNext && this.#waiting.length >= waitingMax)
      throw new StoreUnavailable(`${waitingMax} statements wait to be sent to Cassandra`);
    this.#timer ??= setInterval(() => this.#retry(), sendRetryMs).unref();
    return new Promise((send, fail) => {
      const waiting = { until, send, fail };
      if (isNext) this.#waiting.unshift(waiting);
      else this.#waiting.push(waiting);
    });
  }

  #sendNext(count: number): void {
    for (const { send } of this.#waiting.splice(0, count)) send();
  }

  #retry(): void {
    const now = performance.now();
    for (let next = this.#waiting[0]; next !== undefined && next.until < now; next = this.#waiting[0]) {
      this.#waiting.shift();
      next.fail(
        new StoreUnavailable('a statement waited too long to be sent: the nodes do not answer in time'),
      );
    }
    this.#sendNext(perRetry);
    if (this.#waiting.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** Whether the statement was sent to no node, because a node that is up had too many others. */
function isBusy(cause: unknown): boolean {
  // While the statement is prepared, which the driver tries on one node only.
  if (cause instanceof BusyConnectionError) return true;
  if (!(cause instanceof NoHostAvailableError)) return false;
  // The driver has a text for a node that is down. While it closes there are no reasons.
  const reasons: unknown[] = Object.values(cause.innerErrors ?? {});
  const isUnsent = (why: unknown): boolean => typeof why === 'string' || why instanceof BusyConnectionError;
  return reasons.every(isUnsent) && reasons.some((why) => why instanceof BusyConnectionError);
}
