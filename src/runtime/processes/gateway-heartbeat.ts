/** What a process that serves writes of itself, for `sluice admin status`. */
import { hostname } from 'node:os';
import { lastMinute, RequestHistory } from '../../base/request-history.ts';
import type { Context } from '../../context.ts';
import type { DescribeGateway } from '../../workers/supervision/heartbeats.ts';
import { packageVersion } from '../cli/version.ts';
import { processName } from './node-diagnostics.ts';
import { runtimeName } from './node-telemetry.ts';
import { processPlace } from './node-workers.ts';

export function describeGateway(
  { caches, clock }: Pick<Context, 'caches' | 'clock'>,
  { address, processes }: { readonly address: string; readonly processes: number },
): DescribeGateway {
  const startedAt = clock.now();
  const begun = clock.elapsed();
  const about = {
    node: `${hostname()} ${address}`,
    place: processPlace(),
    process: processName(),
    address,
    version: packageVersion(),
    runtime: runtimeName(),
    processes,
    startedAt,
  };
  return () => ({
    ...about,
    uptimeMs: Math.round(clock.elapsed() - begun),
    requests: lastMinute(caches.of(RequestHistory), clock.now()),
  });
}
