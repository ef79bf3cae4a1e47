/** The record of a gateway process that serves: what it is, since when, and what it was asked last. */
import { table } from '../../../ports/metadata-store.ts';

export interface GatewayRow {
  /** Always 0: one scan reads them all. */
  readonly slot: number;
  /** The host and the address that it serves: the processes of a node have the same one. */
  readonly node: string;
  /** Among the processes of its node, from 0. A process that replaces a dead one has its place. */
  readonly place: number;
  /** `host:pid`, as in the heartbeats of workers. */
  readonly process: string;
  readonly address: string;
  readonly version: string;
  /** Such as `node 24.1.0`. */
  readonly runtime: string;
  /** The processes of its node, by its settings. */
  readonly processes: number;
  /** By the clock of the process (ms). */
  readonly startedAt: number;
  /** How long it has served, by its monotonic clock (ms). */
  readonly uptimeMs: number;
  /** Store time (ms) of the last write of this row. */
  readonly beatAt: number;
  readonly requests: GatewayRequests;
}

/** Requests of the storage protocol over the last one to two minutes. */
export interface GatewayRequests {
  readonly seconds: number;
  readonly requests: number;
  /** 4xx */
  readonly refused: number;
  /** 5xx */
  readonly failed: number;
}

export const gateways = table<GatewayRow>()({
  name: 'gateways',
  kind: 'plain',
  partition: ['slot'],
  sort: ['node', 'place'],
  columns: {
    slot: 'int',
    node: 'text',
    place: 'int',
    process: 'text',
    address: 'text',
    version: 'text',
    runtime: 'text',
    processes: 'int',
    startedAt: 'int',
    uptimeMs: 'int',
    beatAt: 'int',
    requests: 'json',
  },
});
