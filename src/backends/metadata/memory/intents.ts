/** The intents of the memory backend: one for each op, renewed together. */
import type { Clock } from '../../../ports/clock.ts';
import type { Abandoned, Op } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import { stamp } from '../ops/op-id.ts';
import { secondLookMs } from '../ops/second-look.ts';

interface Intent {
  readonly cluster: string;
  /**
   * No commit can apply under a barred intent, but its process must still end it. A swept and settled one is swept `again` when the second
   * look is due.
   */
  state: 'open' | 'barred' | 'swept' | 'settled' | 'again';
}

const isTaken = ({ state }: Intent): boolean => state !== 'open' && state !== 'barred';

export class MemoryIntents {
  readonly #ports: { readonly clock: Clock; readonly random: Random };
  readonly #ttlMs: number;
  readonly #intents = new Map<string, Intent & { lapsesAt: number }>();

  constructor(
    options: { readonly clock: Clock; readonly random: Random } & { readonly intentTtlMs?: number },
  ) {
    this.#ports = options;
    this.#ttlMs = options.intentTtlMs ?? Number.POSITIVE_INFINITY;
  }

  begin(cluster: string): Op {
    const id = stamp(this.#ports);
    this.#intents.set(id, { cluster, state: 'open', lapsesAt: this.#ports.clock.now() + this.#ttlMs });
    return { id };
  }

  isOpen(id: string): boolean {
    return this.#intents.get(id)?.state === 'open';
  }

  bar(id: string): void {
    const intent = this.#intents.get(id);
    if (intent?.state === 'open') intent.state = 'barred';
  }

  /** A swept intent is removed by the sweep only. */
  forget(id: string): void {
    const intent = this.#intents.get(id);
    if (intent !== undefined && !isTaken(intent)) this.#intents.delete(id);
  }

  abandoned(): readonly Abandoned[] {
    const now = this.#ports.clock.now();
    const found: Abandoned[] = [];
    for (const [id, intent] of this.#intents) {
      if (intent.lapsesAt <= now && !isTaken(intent)) intent.state = 'swept';
      if (intent.lapsesAt <= now && intent.state === 'settled') intent.state = 'again';
      if (isTaken(intent) && intent.state !== 'settled')
        found.push({ prefix: `${id}.`, cluster: intent.cluster });
    }
    return found;
  }

  settle(prefix: string): void {
    const id = prefix.slice(0, -1);
    const intent = this.#intents.get(id);
    if (intent?.state === 'again') this.#intents.delete(id);
    if (intent?.state !== 'swept') return;
    intent.state = 'settled';
    intent.lapsesAt = this.#ports.clock.now() + secondLookMs;
  }

  renew(): void {
    const lapsesAt = this.#ports.clock.now() + this.#ttlMs;
    for (const intent of this.#intents.values()) if (!isTaken(intent)) intent.lapsesAt = lapsesAt;
  }
}
