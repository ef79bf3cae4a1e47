/** What every sink gets beside its target, and what events of a removed target are answered. */
import type { Clock } from '../../ports/clock.ts';
import type { Hasher } from '../../ports/cryptography.ts';
import type { SinkTarget } from '../../ports/event-sink.ts';

export interface SinkOptions {
  readonly mayReach: (address: string) => boolean;
  readonly hasher: Hasher;
  readonly clock: Clock;
  /** How long a sink may take to answer. */
  readonly timeoutMs: number;
}

/** Why there is no sink of a target that events name. */
export const explainMissing = (id: string): string =>
  `SVC_NOTIFY_TARGETS has no target "${id}": add it again, or let its events become dead letters after SVC_NOTIFY_RETRY_MAX and discard these`;

/** Why a runtime without bindings cannot deliver to a target of type `queue`. */
export const explainNoBinding = ({ id }: Pick<SinkTarget, 'id'>): string =>
  `the target ${id} is of type queue, and only a Cloudflare Worker can send to a Cloudflare Queue (docs/workers.md)`;
