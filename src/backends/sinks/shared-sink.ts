/** A sink whose deliveries are shared out among the owners of the messages, so that none waits behind all that another has to deliver. */
import { SharedSemaphore } from '../../base/mutex.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Delivery, EventSink } from '../../ports/event-sink.ts';

/**
 * Deliveries that a sink carries out at a time: as many as it has connections, so that no delivery waits for one. One
 * owner alone gets 16 of these turns.
 */
export const sinkTurnsMax = 21;

interface SharedOptions {
  readonly clock: Pick<Clock, 'elapsed'>;
  /** Deliveries on their way at a time. */
  readonly max?: number;
}

export function sharedSink(sink: EventSink, { clock, max = sinkTurnsMax }: SharedOptions): EventSink {
  const turns = new SharedSemaphore(max);
  let failures = 0;
  let away: Delivery | undefined;
  return {
    async deliver(messages, signal) {
      const calledAt = clock.elapsed();
      const failuresBefore = failures;
      const deliver = async (): Promise<Delivery> => {
        const waitedMs = clock.elapsed() - calledAt;
        // The target failed while this delivery waited for its turn. Report that failure at once: otherwise each waiting delivery would
        // need a time-out of its own.
        if (away !== undefined && failures > failuresBefore) return { ...away, delivered: 0, waitedMs };
        const delivery = await sink.deliver(messages, signal);
        const isAway = delivery.failure?.kind === 'unavailable';
        if (isAway) failures += 1;
        away = isAway ? delivery : undefined;
        return { ...delivery, waitedMs };
      };
      return turns.run(messages[0]?.owner ?? '', deliver, signal);
    },
    close: () => sink.close(),
  };
}
