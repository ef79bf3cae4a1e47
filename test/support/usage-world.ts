/** A gateway whose usage rollup runs on a virtual clock: a test says how many hours pass, and reads the feed as an operator. */
import type { Context } from '../../src/context.ts';
import { rollUpUsage } from '../../src/workers/buckets.ts';
import { faulty } from './faulty.ts';
import {
  type Backend,
  type GatewayWorld,
  type GatewayWorldOptions,
  openGateway,
  operator,
} from './gateway.ts';
import { type VirtualClock, virtualClock } from './virtual-clock.ts';

export const hourMs = 3_600_000;
const never = new AbortController().signal;

export interface UsageWorld extends GatewayWorld {
  readonly clock: VirtualClock;
  /** Runs the rollup until nothing is due. */
  rollUp(): Promise<void>;
  /** The hours pass one by one, and the rollup runs after each. */
  hours(count: number): Promise<void>;
  /** Another process leads from now on. */
  changeLeader(): void;
  /** The reply to a GET of an operator. */
  ask(path: string): Promise<{ readonly status: number; readonly text: string }>;
  /** The rows of the usage of `/bucket`, or of what `path` names. */
  rows(path?: string): Promise<readonly Record<string, unknown>[]>;
}

export async function openUsageWorld(
  backend: Backend = 'memory',
  options: GatewayWorldOptions = {},
): Promise<UsageWorld> {
  const clock = virtualClock();
  const { wrap = (context: Context) => context } = options;
  const world = await openGateway({
    ...options,
    backend,
    clock,
    wrap: (context) => {
      // An engine has a clock of its own, which no test can advance.
      const metadata = faulty(context.metadata, { now: async () => clock.now() });
      return wrap({ ...context, metadata });
    },
  });
  let generation = 1;
  let unit = rollUpUsage(world.context, generation);
  const rollUp = async (): Promise<void> => {
    while ((await unit(never)) === 'busy');
  };
  const ask = (path: string) => world.as({ credential: operator }).get(`/admin/v1${path}`);
  return Object.assign(world, {
    clock,
    rollUp,
    ask,
    async hours(count: number) {
      for (let hour = 0; hour < count; hour += 1) {
        clock.jump(hourMs);
        await rollUp();
      }
    },
    changeLeader() {
      generation += 1;
      unit = rollUpUsage(world.context, generation);
    },
    async rows(path = '/buckets/bucket/usage') {
      const { status, text } = await ask(path);
      if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
      return JSON.parse(text).rows;
    },
  });
}

/** The rows of an export with the columns of FOCUS. */
export function readFocus(text: string): readonly Record<string, string>[] {
  const [names = [], ...rows] = text
    .trimEnd()
    .split('\n')
    // Descriptions hold a comma, so the fields are matched with their quotes.
    .map((line) => [...`${line},`.matchAll(/(?:"([^"]*)"|([^,]*)),/g)].map(([, a, b]) => a ?? b ?? ''));
  return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at] ?? ''])));
}
