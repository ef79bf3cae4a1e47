/** `notify`: delivers the events of buckets to the targets of SVC_NOTIFY_TARGETS, until it loses its lease. */

import { type Ctx, notifyQueue } from '../domain/deliveries/events/deliver-rows.ts';
import { DeliveryRates } from '../domain/deliveries/events/rates.ts';
import { Lanes } from '../domain/lanes/lanes.ts';
import { IdleRest } from './supervision/idle-rest.ts';
import { type Unit, unsupervised } from './supervision/worker.ts';

/** The unit ends only with the signal or a failure: its lanes run side by side, for as long as each of them needs. */
export const deliverNotifications =
  (context: Ctx, generation = 0, services = unsupervised): Unit =>
  async (signal) => {
    const rates = new DeliveryRates(context);
    const lanes = new Lanes(context, notifyQueue({ ...context, telemetry: rates.telemetry }), generation);
    const idle = services.idle ?? new IdleRest(context);
    try {
      while (!signal.aborted) {
        idle.begin();
        const begunAt = context.clock.elapsed();
        await lanes.start(signal);
        await rates.store();
        services.roundEnded(context.clock.elapsed() - begunAt);
        idle.nothingBefore(() => (rates.isStored ? lanes.nothingBefore() : Number.NEGATIVE_INFINITY));
        await idle.rest(context.config.SVC_NOTIFY_INTERVAL, signal);
      }
    } finally {
      await lanes.settle();
    }
    return 'idle';
  };
