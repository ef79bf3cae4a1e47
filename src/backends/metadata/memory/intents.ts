/** The intents of the memory backend: one for each op, renewed together (design §5). */
import type { Clock } from '../../../ports/clock.ts';
import type { Abandoned, Op } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import { stamp } from '../op-id.ts';

interface Intent {
  readonly cluster: string;
  /** A barred one can commit nothing more, but its bytes are still its process's to end. */
  state: 'open' | 'barred' | 'swept';
}

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

  /** What a sweep has taken is the sweep's to forget. */
  forget(id: string): void {
    if (this.#intents.get(id)?.state !== 'swept') this.#intents.delete(id);
  }

  abandoned(): readonly Abandoned[] {
    const now = this.#ports.clock.now();
    const found: Abandoned[] = [];
    for (const [id, intent] of this.#intents) {
      if (intent.lapsesAt <= now) intent.state = 'swept';
      if (intent.state === 'swept') found.push({ prefix: `${id}.`, cluster: intent.cluster });
    }
    return found;
  }

  settle(prefix: string): void {
    const id = prefix.slice(0, -1);
    if (this.#intents.get(id)?.state === 'swept') this.#intents.delete(id);
  }

  renew(): void {
    const lapsesAt = this.#ports.clock.now() + this.#ttlMs;
    for (const intent of this.#intents.values()) if (intent.state !== 'swept') intent.lapsesAt = lapsesAt;
  }
}
