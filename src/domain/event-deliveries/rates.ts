/** How many events each target takes a second, stored so that every process can show it. */

import type { Context } from '../../context.ts';
import {
  findSoundTask,
  findTask,
  firstThatFit,
  putTask,
  stateBytesMax,
  type TaskKind,
} from '../../metadata/background/tasks.ts';
import { undefinedIfDamaged } from '../../metadata/sound-rows.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { MetricLabels, Telemetry } from '../../ports/telemetry.ts';

interface Rates {
  /** Store time (ms). */
  readonly at: number;
  readonly perSecond: Readonly<Record<string, number>>;
}
const kind: TaskKind<Rates> = { kind: 'notify-rates' };

/** They are averages over this time. */
const intervalMs = 10_000;
/** Older rates are stale: no leader has stored newer ones. */
const staleMs = 3 * intervalMs;

type Ctx = Pick<Context, 'metadata' | 'clock' | 'telemetry'>;

export class DeliveryRates {
  readonly telemetry: Telemetry;
  readonly #ctx: Ctx;
  #delivered = new Map<string, number>();
  #since: number;
  /** The former leader's rates become stale by themselves. */
  #isZeroStored = true;

  constructor(ctx: Ctx) {
    const { clock, telemetry } = ctx;
    this.#ctx = ctx;
    this.#since = clock.elapsed();
    this.telemetry = {
      ...telemetry,
      count: (name, labels, by = 1) => {
        telemetry.count(name, labels, by);
        if (name !== 'svc_notify_delivered_total') return;
        const { target } = labels as MetricLabels<'svc_notify_delivered_total'>;
        this.#delivered.set(target, (this.#delivered.get(target) ?? 0) + by);
      },
    };
  }

  /** Whether the stored rates are right until something is delivered. */
  get isStored(): boolean {
    return this.#isZeroStored && this.#delivered.size === 0;
  }

  /** Stores the rates when an interval is over. A write that fails is left out; the next interval is written again. */
  async store(): Promise<void> {
    try {
      await this.#store();
    } catch (cause) {
      this.#ctx.telemetry.log('DEBUG', 'the rates of targets could not be stored', { cause });
    }
  }

  async #store(): Promise<void> {
    const { metadata, clock } = this.#ctx;
    const ms = clock.elapsed() - this.#since;
    if (ms < intervalMs) return;
    const rates = [...this.#delivered]
      .sort(([, a], [, b]) => b - a)
      .map(([target, events]) => [target, (events * 1000) / ms] as const);
    const perSecond = Object.fromEntries(firstThatFit(rates, stateBytesMax));
    const isZero = this.#delivered.size === 0;
    this.#delivered = new Map();
    this.#since = clock.elapsed();
    // While nothing is delivered there is nothing to write.
    if (isZero && this.#isZeroStored) return;
    const found = await findSoundTask(metadata, kind, '');
    const state = { at: await metadata.now(), perSecond };
    await putTask(metadata, kind, { name: '', state, expect: found?.revision ?? 'absent' });
    this.#isZeroStored = isZero;
  }
}

/** By target; a target that took nothing in the last interval is absent. */
export async function readRates(
  metadata: Pick<MetadataStore, 'get' | 'now'>,
): Promise<ReadonlyMap<string, number>> {
  const found = await findTask(metadata, kind, '').catch(undefinedIfDamaged);
  if (found === undefined || found.state.at + staleMs < (await metadata.now())) return new Map();
  return new Map(Object.entries(found.state.perSecond));
}
