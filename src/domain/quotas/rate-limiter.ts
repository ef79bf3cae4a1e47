/**
 * Limits of requests, bytes and concurrent requests for accounts, buckets and anonymous sources: a token bucket for each scope that has a
 * limit. The processes of a node tell each other what they served, ten times a second, so together they keep one limit, beyond which they
 * serve at most what they admit between two reports. Nodes do not share a limit. Where none is set, a request costs a look at the clock.
 */

import { fail, type Refusal } from '../../base/errors.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import {
  everyRateLimit,
  findRateLimit,
  type RateLimit,
  readRateLimits,
  replaceRateLimit,
} from '../../metadata/records/limits.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import { unlessDamaged } from '../common/damaged-buckets.ts';

type Ctx = Pick<Context, 'clock' | 'metadata' | 'random' | 'siblings' | 'telemetry'>;

type LimitKind = 'account' | 'bucket' | 'anonymous';
export interface Scope {
  readonly kind: LimitKind;
  /** The account's id, the bucket's id, or the source of an anonymous request. */
  readonly id: string;
}

export const formatScope = ({ kind, id }: Scope): string => (kind === 'anonymous' ? kind : `${kind}:${id}`);

/**
 * Removes the limit of a bucket or an account that was deleted, because operators name the limit by it. A kill in between leaves the limit
 * (of a bucket to `dropStrayLimits`), and so does damage of its row.
 * @throws OperationAborted where an operator changes it at the same time
 */
export const dropRateLimit = async ({ metadata }: Pick<Ctx, 'metadata'>, scope: Scope): Promise<void> => {
  await unlessDamaged(async () => {
    const found = await findRateLimit(metadata, formatScope(scope));
    if (found !== undefined && !(await replaceRateLimit(metadata, found, undefined, [])))
      throw fail('OperationAborted');
  });
};

/** Removes the limits of buckets that are gone: of a killed DeleteBucket, and those that operators set while their bucket was deleted. */
export async function dropStrayLimits({ metadata }: Pick<Ctx, 'metadata'>): Promise<void> {
  for await (const limit of everyRateLimit(metadata)) {
    const { scope, name } = limit.row;
    if (name === '') continue;
    const bucket = await unlessDamaged(() => findBucket(metadata, name));
    if (bucket instanceof MetadataDamaged) continue;
    if (bucket === undefined || formatScope({ kind: 'bucket', id: bucket.row.id }) !== scope)
      await replaceRateLimit(metadata, limit, undefined, []);
  }
}

/** Other machines change limits without an announcement. */
const refreshMs = 10_000;
const reportMs = 100;
/** A report of open requests expires, because a process that ends reports nothing. */
const reportedMs = 3_000;
/** How often a process repeats a number of open requests that stays the same. */
const repeatMs = 1_000;
/**
 * Scopes in one message. A report takes as many messages as it needs: a scope that it left out would have a limit in each process. Its
 * length is bounded by the requests of a tenth of a second and the open ones.
 */
const messageScopes = 200;
/** Anonymous sources are many: idle ones are given up first, then the oldest. */
const usesMax = 20_000;
const sleepMsMax = 1_000;

export const limitsTopic = 'rate-limits';
const usesTopic = 'rate-limit-uses';

/** Part of a report: scope, kind, requests, bytes, open requests. */
type Reported = readonly [use: string, kind: LimitKind, requests: number, bytes: number, open: number];

/** What a scope has used. */
class Use {
  limit: RateLimit;
  readonly kind: LimitKind;
  /** Requests and bytes that may pass now; bytes may be negative, because a body is counted while it passes. */
  requests: number;
  bytes: number;
  #at: number;
  open = 0;
  /** Open requests of other processes, by process. */
  readonly elsewhere = new Map<string, { readonly open: number; readonly at: number }>();
  unreported = { requests: 0, bytes: 0 };
  #reported = { open: 0, at: 0 };

  constructor(kind: LimitKind, limit: RateLimit, now: number) {
    this.kind = kind;
    this.limit = limit;
    this.#at = now;
    this.requests = capacity(limit.requestsPerSecond, limit);
    this.bytes = capacity(limit.bytesPerSecond, limit);
  }

  /**
   * Exchanges the limit. A kind without a limit has an unlimited balance, so that it begins full when it is limited again. A debt is at
   * most one second of the new limit, because the new limit may be much lower than the one under which the debt was made.
   */
  exchange(limit: RateLimit, now: number): void {
    this.refill(now);
    this.limit = limit;
    this.requests = carryOver(this.requests, limit.requestsPerSecond);
    this.bytes = carryOver(this.bytes, limit.bytesPerSecond);
  }

  refill(now: number): void {
    const { requestsPerSecond, bytesPerSecond } = this.limit;
    const seconds = Math.max(0, now - this.#at) / 1_000;
    this.#at = now;
    if (requestsPerSecond !== undefined)
      this.requests = Math.min(
        capacity(requestsPerSecond, this.limit),
        this.requests + seconds * requestsPerSecond,
      );
    if (bytesPerSecond !== undefined)
      this.bytes = Math.min(capacity(bytesPerSecond, this.limit), this.bytes + seconds * bytesPerSecond);
  }

  /** The refusal of a further request now. */
  refusal(now: number): Refusal | undefined {
    this.refill(now);
    const { requestsPerSecond, bytesPerSecond, concurrentRequests } = this.limit;
    if (concurrentRequests !== undefined && this.#openAnywhere(now) >= concurrentRequests)
      return this.#slowDown(`${concurrentRequests} concurrent requests`, 1);
    if (requestsPerSecond !== undefined && this.requests < 1)
      return this.#slowDown(
        `${requestsPerSecond} requests per second`,
        (1 - this.requests) / requestsPerSecond,
      );
    // Open bodies wait while the balance is negative. A further request may join them, within one second of debt.
    if (bytesPerSecond !== undefined && this.bytes <= -bytesPerSecond)
      return this.#slowDown(`${bytesPerSecond} bytes per second`, -this.bytes / bytesPerSecond);
    return undefined;
  }

  #openAnywhere(now: number): number {
    let open = this.open;
    for (const [process, { open: there, at }] of this.elsewhere) {
      if (now - at > reportedMs) this.elsewhere.delete(process);
      else open += there;
    }
    return open;
  }

  #slowDown(limit: string, seconds: number): Refusal {
    const whose = { account: 'The account', bucket: 'The bucket', anonymous: 'An anonymous source' };
    return fail('SlowDown', {
      message: `${whose[this.kind]} is limited to ${limit}. Please reduce your request rate.`,
      retryAfter: Math.max(1, Math.ceil(seconds)),
    });
  }

  /** What the other processes do not know yet, which counts as reported from then on. */
  takeUnreported(now: number): { requests: number; bytes: number; open: number } | undefined {
    const { open } = this;
    const { requests, bytes } = this.unreported;
    const isKnown = open === this.#reported.open && (open === 0 || now - this.#reported.at < repeatMs);
    if (requests === 0 && bytes === 0 && isKnown) return undefined;
    this.unreported = { requests: 0, bytes: 0 };
    this.#reported = { open, at: now };
    return { requests, bytes, open };
  }

  get isIdle(): boolean {
    const { requestsPerSecond, bytesPerSecond } = this.limit;
    const isFull =
      this.requests >= capacity(requestsPerSecond, this.limit) &&
      this.bytes >= capacity(bytesPerSecond, this.limit);
    return isFull && this.open === 0 && this.elsewhere.size === 0;
  }
}

/** At least one, so that a limit below one a second lets a request pass at all. */
const capacity = (perSecond: number | undefined, { burstSeconds = 1 }: RateLimit): number =>
  perSecond === undefined ? Number.POSITIVE_INFINITY : Math.max(1, perSecond * burstSeconds);

const carryOver = (balance: number, perSecond: number | undefined): number =>
  perSecond === undefined ? Number.POSITIVE_INFINITY : Math.max(-perSecond, balance);

/** The places that a request has under its limits, until its reply has ended. */
export class Admission {
  readonly #uses: Use[] = [];
  #isEnded = false;

  add(use: Use): void {
    use.requests -= 1;
    use.unreported.requests += 1;
    use.open += 1;
    this.#uses.push(use);
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    for (const use of this.#uses) use.open -= 1;
  }

  get hasByteLimit(): boolean {
    return this.#uses.some(({ limit }) => limit.bytesPerSecond !== undefined);
  }

  count(bytes: number): void {
    for (const use of this.#uses) {
      use.bytes -= bytes;
      use.unreported.bytes += bytes;
    }
  }

  /** Counts bytes of a body; resolves when the limits allow further ones. */
  async pass({ clock }: Pick<Ctx, 'clock'>, bytes: number, signal: AbortSignal): Promise<void> {
    this.count(bytes);
    for (let waitMs = this.#waitMs(clock.elapsed()); waitMs > 0 && !signal.aborted; ) {
      await clock.sleep(Math.min(waitMs, sleepMsMax), signal);
      waitMs = this.#waitMs(clock.elapsed());
    }
  }

  /** Rounded up to whole milliseconds: a sleep of a small fraction may not advance the clock, and the loop in `pass` would not end. */
  #waitMs(now: number): number {
    let waitMs = 0;
    for (const use of this.#uses) {
      const { bytesPerSecond } = use.limit;
      if (bytesPerSecond === undefined) continue;
      use.refill(now);
      waitMs = Math.max(waitMs, Math.ceil((-use.bytes / bytesPerSecond) * 1_000));
    }
    return waitMs;
  }
}

export class RateLimiter {
  #limits: ReadonlyMap<string, RateLimit> | undefined;
  #readAt = 0;
  #reading: Promise<void> | undefined;
  readonly #uses = new Map<string, Use>();
  #process = '';
  #isReporting = false;

  /** Whether `admit` may be called: the limits are known, or are being read again. */
  isReady(ctx: Ctx): boolean {
    if (this.#limits === undefined) return false;
    if (ctx.clock.elapsed() - this.#readAt > refreshMs) void this.#read(ctx);
    return true;
  }

  get hasLimits(): boolean {
    return this.#limits !== undefined && this.#limits.size > 0;
  }

  /** Reads the limits for the first time, or after one has changed. */
  async open(ctx: Ctx): Promise<void> {
    if (this.#process === '') this.#join(ctx);
    await this.#read(ctx);
  }

  /** Drops the limits, because one has changed. */
  forget(): void {
    this.#limits = undefined;
  }

  #read(ctx: Ctx): Promise<void> {
    this.#reading ??= this.#readOnce(ctx).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Requests are served without limits while these cannot be read, because damage of this table must not stop the gateway. */
  async #readOnce({ clock, metadata, telemetry }: Ctx): Promise<void> {
    this.#readAt = clock.elapsed();
    let limits: ReadonlyMap<string, RateLimit>;
    try {
      limits = new Map((await readRateLimits(metadata)).map(({ scope, limit }) => [scope, limit]));
    } catch (cause) {
      telemetry.log('WARN', 'the rate limits cannot be read; the former ones stay in force', { cause });
      this.#limits ??= new Map();
      return;
    }
    this.#limits = limits;
    for (const [key, use] of this.#uses) {
      const limit = limits.get(use.kind === 'anonymous' ? use.kind : key);
      if (limit === undefined) this.#uses.delete(key);
      else use.exchange(limit, clock.elapsed());
    }
  }

  /** Takes a place for a request, where its scope has a limit. @throws SlowDown */
  admit(ctx: Ctx, admission: Admission | undefined, scope: Scope): Admission | undefined {
    const limit = this.#limits?.get(formatScope(scope));
    if (limit === undefined) return admission;
    const now = ctx.clock.elapsed();
    const use = this.#find(scope, limit, now);
    const refusal = use.refusal(now);
    if (refusal !== undefined) {
      ctx.telemetry.count('svc_limited_requests_total', { scope: scope.kind });
      throw refusal;
    }
    const admitted = admission ?? new Admission();
    admitted.add(use);
    this.#report(ctx);
    return admitted;
  }

  #find({ kind, id }: Scope, limit: RateLimit, now: number): Use {
    const key = `${kind}:${id}`;
    let use = this.#uses.get(key);
    if (use === undefined) {
      if (this.#uses.size >= usesMax) this.#makeSpace(now);
      use = new Use(kind, limit, now);
      this.#uses.set(key, use);
    }
    return use;
  }

  /**
   * Gives up idle scopes, or else the oldest anonymous source. An account or a bucket would get a further burst; their number is bounded
   * by the limits that are set.
   */
  #makeSpace(now: number): void {
    let oldest: string | undefined;
    for (const [key, use] of this.#uses) {
      use.refill(now);
      if (use.isIdle) this.#uses.delete(key);
      else if (use.kind === 'anonymous') oldest ??= key;
      if (this.#uses.size < usesMax / 2) return;
    }
    if (this.#uses.size >= usesMax && oldest !== undefined) this.#uses.delete(oldest);
  }

  #join(ctx: Ctx): void {
    this.#process = toHex(ctx.random.bytes(8));
    ctx.siblings.subscribe(limitsTopic, () => this.forget());
    ctx.siblings.subscribe(usesTopic, (about) => {
      // The cast is safe: only `#tell` of a process of this node writes such announcements.
      const { process, uses } = JSON.parse(about) as { process: string; uses: readonly Reported[] };
      const now = ctx.clock.elapsed();
      for (const [key, kind, requests, bytes, open] of uses) {
        const limit = this.#limits?.get(kind === 'anonymous' ? kind : key);
        if (limit === undefined) continue;
        const use = this.#find({ kind, id: key.slice(kind.length + 1) }, limit, now);
        use.refill(now);
        use.requests -= requests;
        use.bytes -= bytes;
        if (open === 0) use.elsewhere.delete(process);
        else use.elsewhere.set(process, { open, at: now });
      }
    });
  }

  /** Tells the other processes until nothing is left to tell. */
  #report(ctx: Ctx): void {
    if (this.#isReporting) return;
    this.#isReporting = true;
    void this.#tell(ctx).finally(() => {
      this.#isReporting = false;
    });
  }

  async #tell({ clock, siblings }: Ctx): Promise<void> {
    const rest = new AbortController();
    for (;;) {
      await clock.sleep(reportMs, rest.signal);
      const now = clock.elapsed();
      const uses: Reported[] = [];
      let hasOpen = false;
      for (const [key, use] of this.#uses) {
        hasOpen ||= use.open > 0;
        const unreported = use.takeUnreported(now);
        if (unreported === undefined) continue;
        uses.push([key, use.kind, unreported.requests, unreported.bytes, unreported.open]);
      }
      if (uses.length === 0 && !hasOpen) return;
      const messages: Promise<boolean>[] = [];
      for (let n = 0; n < uses.length; n += messageScopes) {
        const about = JSON.stringify({ process: this.#process, uses: uses.slice(n, n + messageScopes) });
        messages.push(siblings.announce({ topic: usesTopic, about }, reportMs));
      }
      await Promise.all(messages);
    }
  }
}
