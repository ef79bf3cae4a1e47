/** What every sink gets beside its target. */
import type { Clock } from '../../ports/clock.ts';
import type { Hasher } from '../../ports/cryptography.ts';

export interface SinkOptions {
  readonly mayReach: (address: string) => boolean;
  readonly hasher: Hasher;
  readonly clock: Clock;
  /** How long a sink may take to answer. */
  readonly timeoutMs: number;
}
