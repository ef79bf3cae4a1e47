/** `node bench/recent-requests.ts [rounds]`: the CPU of a 4 KiB PUT and GET without and with the ring of recent requests. */

import { createGateway } from '../src/admin-gateway.ts';
import type { Caches } from '../src/base/bounded-cache.ts';
import { RecentRequests } from '../src/base/recent-entries.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { nodeTelemetry } from '../src/runtime/processes/node-telemetry.ts';
import { compareRequestCpu, cpuConfig, credentials, defaultTracer } from './lib/request-cpu.ts';

const config = cpuConfig();
const { context } = await compose(config, {
  credentials,
  telemetry: nodeTelemetry(config),
  tracer: defaultTracer(config),
});

class Nothing extends RecentRequests {
  override add(): void {}
}
const nothing = new Nothing();
const without: Pick<Caches, 'of'> = {
  // The cast: every request asks for the same few kinds.
  of: (kind) => (kind === (RecentRequests as unknown) ? (nothing as never) : context.caches.of(kind)),
};

await compareRequestCpu(
  [
    ['without', createGateway({ ...context, caches: without as Caches })],
    ['with', createGateway(context)],
    ['without again', createGateway({ ...context, caches: without as Caches })],
  ],
  Number(process.argv[2] ?? 60),
);
process.exit(0);
