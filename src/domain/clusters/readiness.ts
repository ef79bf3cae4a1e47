/**
 * Whether this process can serve: a recent durable write and read of each backend, by component. A probe is valid for `freshMs`, so
 * that frequent readiness requests cost nothing; after a failure the next request probes again.
 */
import { describeError } from '../../base/text/describe-error.ts';
import { dataBackends } from '../../config/data.ts';
import type { Context } from '../../context.ts';
import { type TaskRow, tasks } from '../../metadata/records/tasks.ts';
import { isStorageFull } from '../../ports/chunk-store.ts';
import type { At } from '../../ports/metadata-store.ts';
import { type ClusterView, type Extent, type ObjectBytes, unknownSize } from '../../ports/object-bytes.ts';
import { drawId } from '../common/ids.ts';

type Ctx = Pick<
  Context,
  'metadata' | 'bytes' | 'clock' | 'random' | 'config' | 'diskSpace' | 'clusterStates' | 'keys'
>;

/** `full`: reads and deletions work, further data is refused. */
type ComponentStatus = 'ok' | 'full' | 'failed';

interface ComponentState {
  /** `metadata`, `data:<cluster>`, `keys` or `settings`. */
  readonly component: string;
  readonly status: ComponentStatus;
  readonly reason?: string;
  /** When the last write and read began, in ms since the epoch. */
  readonly checkedAt: number;
}

interface ReadinessReport {
  /** `full`: reads and deletions are served. */
  readonly status: ComponentStatus;
  readonly components: readonly ComponentState[];
}

export type Readiness = () => Promise<ReadinessReport>;

/** How long a successful probe is valid. */
const freshMs = 5_000;
const freshPaidMs = 60_000;
/** How long a failed probe is valid, so that many concurrent requests cause one probe. */
const freshFailureMs = 250;
/** The limit for a probe; with a slower backend requests would time out too. */
const probeTimeoutMs = 5_000;
/** A probe row expires after this time if its process no longer renews it. */
const rowLifeMs = 60 * 60_000;

const kind = 'readiness';
const keysComponent = 'keys';
const rows: At<typeof tasks> = { table: tasks, in: { kind } };

export function openReadiness(ctx: Ctx): Readiness {
  const freshUntilFailure = dataBackends[ctx.config.SVC_DATA_BACKEND].isPaid ? freshPaidMs : freshMs;
  const name = drawId(ctx.random);
  let last: { readonly at: number; readonly states: readonly ComponentState[] } | undefined;
  let running: Promise<readonly ComponentState[]> | undefined;

  const probe = async (): Promise<readonly ComponentState[]> => {
    const states = await Promise.all([
      check(ctx, 'metadata', () => probeMetadata(ctx, name)),
      ...ctx.bytes.clusters.map((cluster) => check(ctx, `data:${cluster}`, () => probeData(ctx, cluster))),
      ...probeKeys(ctx),
    ]);
    last = { at: ctx.clock.elapsed(), states };
    return states;
  };

  const probed = (): Promise<readonly ComponentState[]> => {
    const isWell = last?.states.every(({ status }) => status === 'ok');
    const lifeMs = isWell ? freshUntilFailure : freshFailureMs;
    if (last !== undefined && ctx.clock.elapsed() - last.at < lifeMs) return Promise.resolve(last.states);
    running ??= probe().finally(() => {
      running = undefined;
    });
    return running;
  };

  return async () => {
    const [states, settings] = await Promise.all([probed(), check(ctx, 'settings', () => checkListed(ctx))]);
    return buildReport([...states.map((state) => withDiskSpace(ctx, state)), settings]);
  };
}

/** Never rejects: an error becomes the state. */
async function check(ctx: Ctx, component: string, run: () => Promise<void>): Promise<ComponentState> {
  const checkedAt = ctx.clock.now();
  const answered = new AbortController();
  const tooLate = ctx.clock.sleep(probeTimeoutMs, answered.signal).then(() => {
    if (!answered.signal.aborted) throw new Error(`did not answer within ${probeTimeoutMs / 1000} s`);
  });
  tooLate.catch(() => undefined);
  try {
    await Promise.race([run(), tooLate]);
    return { component, status: 'ok', checkedAt };
  } catch (cause) {
    return {
      component,
      status: isStorageFull(cause) ? 'full' : 'failed',
      reason: describeError(cause),
      checkedAt,
    };
  } finally {
    answered.abort();
  }
}

/** A provider outside of this process. */
const probeKeys = (ctx: Ctx): Promise<ComponentState>[] => {
  const probe = ctx.keys?.probe;
  return probe === undefined ? [] : [check(ctx, keysComponent, probe)];
};

/** Writes a row of this process and reads it back. */
async function probeMetadata({ metadata }: Ctx, name: string): Promise<void> {
  // A file that is open takes commits also where its directory was moved away.
  if (!metadata.isDistant) await metadata.health();
  const now = await metadata.now();
  const former = await metadata.get(rows, { name });
  const row: TaskRow = { kind, name, state: { at: now } };
  const outcome = await metadata.commit(rows, [
    { put: row, expect: former?.revision ?? 'absent', expiresAt: now + rowLifeMs },
  ]);
  const read = await metadata.get(rows, { name });
  if (!outcome.applied || read?.revision !== outcome.revision)
    throw new Error('a row that was just written was not read back');
}

/** Writes a small extent under an op and reads it back. If the process dies here, the sweeper removes the extent. */
async function probeData({ metadata, bytes, random }: Ctx, cluster: string): Promise<void> {
  const written = random.bytes(16);
  const op = await metadata.begin({ cluster });
  let extent: Extent = { cluster, id: op.id, size: unknownSize };
  try {
    const owner = { bucketId: kind, key: '', size: written.length };
    // The `noop` backend does not keep contents, so compare the length only.
    extent = await bytes.write(once(written), { cluster, id: op.id, owner, size: written.length });
    const read = await gather(bytes, extent);
    if (read.length !== written.length) throw new Error('bytes that were just written were not read back');
  } finally {
    await bytes.remove([extent]).then(
      () => metadata.end(op),
      // The op stays open: the sweeper removes the extent after this process has ended.
      () => metadata.abort(op.id).catch(() => undefined),
    );
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function gather(bytes: Pick<ObjectBytes, 'read'>, extent: Extent): Promise<number[]> {
  const read: number[] = [];
  for await (const piece of bytes.read(extent)) read.push(...piece);
  return read;
}

/** Reports a cluster that the settings leave out while it may hold chunks: the operator must learn that immediately. */
async function checkListed({ clusterStates, config }: Ctx): Promise<void> {
  const view = await clusterStates.view();
  if (view.leftOut.length > 0) throw new Error(describeLeftOut(config, view));
}

export const describeLeftOut = (
  { SVC_DATA_BACKEND: backend }: Pick<Context['config'], 'SVC_DATA_BACKEND'>,
  { leftOut }: Pick<ClusterView, 'leftOut'>,
): string => `${dataBackends[backend].list} leaves out ${leftOut.join(', ')}, where chunks may be`;

/** Reports a disk below its reserve immediately, without waiting for the next probe. */
function withDiskSpace({ diskSpace }: Ctx, state: ComponentState): ComponentState {
  const warning = diskSpace?.states().find(({ component }) => component === state.component)?.warning;
  return warning === undefined || state.status === 'failed'
    ? state
    : { ...state, status: 'full', reason: warning };
}

/**
 * One failed data cluster of several does not make the gateway unready: writes go to another cluster. Nor does a key provider, because
 * what needs no key is served, and no other gateway would reach it.
 */
function buildReport(components: readonly ComponentState[]): ReadinessReport {
  const data = components.filter(({ component }) => component.startsWith('data:'));
  const others = components.filter(
    ({ component }) => !component.startsWith('data:') && component !== keysComponent,
  );
  const best = (['ok', 'full', 'failed'] as const).find((status) =>
    data.some((each) => each.status === status),
  );
  const statuses = [...others.map(({ status }) => status), best ?? 'ok'];
  const status = statuses.includes('failed') ? 'failed' : statuses.includes('full') ? 'full' : 'ok';
  return { status, components };
}
