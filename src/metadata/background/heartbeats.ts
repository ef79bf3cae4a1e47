/** The heartbeats of the background workers and of the gateways, each in one partition. */
import type { At, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import { type GatewayRow, gateways, type HeartbeatRow, heartbeats } from '../records/processes.ts';
import { soundPages } from '../sound-rows.ts';

const heartbeatsAt: At<typeof heartbeats> = { table: heartbeats, in: { slot: 0 } };
const gatewaysAt: At<typeof gateways> = { table: gateways, in: { slot: 0 } };

/**
 * The time between two heartbeats, on this machine and elsewhere: each commit of an embedded store writes some 28 KiB. Two minutes are a
 * multiple of the shorter rests, so other writes of the instant share the commit.
 */
export const heartbeatMs = { local: 120_000, distant: 10_000 } as const;

/** After this time without a heartbeat a process is assumed dead. */
const silentMs = { local: 180_000, distant: 30_000 } as const;
export const silentAfterMs = ({ isDistant }: Pick<MetadataStore, 'isDistant'>): number =>
  silentMs[isDistant ? 'distant' : 'local'];

const dayMs = 24 * 60 * 60 * 1000;
/** How long the row of a leader is kept after its last heartbeat, so that its last error can be read. */
const leaderMs = 7 * dayMs;
/** The same for a gateway that was killed; one that stops removes its row. */
const gatewayMs = dayMs;
/** The same for a worker that runs in every process: a restarted gateway has another process id. */
const memberMs = 10 * 60_000;
const pageRows = 500;
const processWorker = '';

/** Ends at a multiple of this part of a row's life, so that an index entry of the expiry serves several writes. */
const expiryShare = 4;

function expiryAfter(beatAt: number, lifeMs: number): number {
  const grainMs = lifeMs / expiryShare;
  return Math.ceil((beatAt + lifeMs) / grainMs) * grainMs;
}

const heartbeatExpiry = ({ beatAt, generation }: HeartbeatRow): number =>
  expiryAfter(beatAt, generation === 0 ? memberMs : leaderMs);

/** The row of a process, which says that it lives. */
export const processBeat = ({
  process,
  since,
  beatAt,
}: Pick<HeartbeatRow, 'process' | 'since' | 'beatAt'>): HeartbeatRow => ({
  slot: 0,
  worker: processWorker,
  process,
  generation: 0,
  since,
  beatAt,
  units: 0,
  failures: 0,
});

/** @param gateway the process that writes them */
export const putHeartbeats = (
  metadata: Pick<MetadataStore, 'apply'>,
  rows: readonly HeartbeatRow[],
  gateway?: GatewayRow,
): Promise<void> => {
  const ofWorkers = rows.map(
    (row): SideChange => ({
      at: heartbeatsAt,
      put: row,
      expiresAt: heartbeatExpiry(row),
    }),
  );
  const ofGateway: SideChange[] =
    gateway === undefined
      ? []
      : [{ at: gatewaysAt, put: gateway, expiresAt: expiryAfter(gateway.beatAt, gatewayMs) }];
  return metadata.apply([...ofGateway, ...ofWorkers]);
};

export const removeGateway = (
  metadata: Pick<MetadataStore, 'apply'>,
  { node, place }: Pick<GatewayRow, 'node' | 'place'>,
): Promise<void> => metadata.apply([{ at: gatewaysAt, remove: { node, place } }]);

/** Reads the heartbeats of all workers, in pages, by worker and process. */
export async function* everyHeartbeat(metadata: Pick<MetadataStore, 'scan'>): AsyncGenerator<HeartbeatRow> {
  /** The rows of processes come first. */
  const beats = new Map<string, number>();
  const cursor = metadata.scan(heartbeatsAt);
  for await (const page of soundPages(cursor, pageRows))
    for (const { row } of page) {
      if (row.worker === processWorker) beats.set(row.process, row.beatAt);
      else if (row.endedAt !== undefined) yield row;
      else yield { ...row, beatAt: Math.max(row.beatAt, beats.get(row.process) ?? 0) };
    }
}

/** Reads the rows of all gateways, in pages, by node and place. */
export async function* everyGateway(metadata: Pick<MetadataStore, 'scan'>): AsyncGenerator<GatewayRow> {
  const cursor = metadata.scan(gatewaysAt);
  for await (const page of soundPages(cursor, pageRows)) for (const { row } of page) yield row;
}
