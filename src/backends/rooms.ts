/** The disks of a gateway: those of its stores, by component. */
import { statfsSync, statSync } from 'node:fs';
import type { RoomState, StorageRoom } from '../ports/chunk-store.ts';
import { DiskRoom, type DiskRoomOptions } from './disk-room.ts';

type Shared = Pick<DiskRoomOptions, 'reserveBytes' | 'clock'>;
/** A disk on which no reserve is kept (`SVC_DISK_RESERVE=0`): operators see its space all the same. */
type MeasuredDisk = Pick<DiskRoomOptions, 'component' | 'directory'>;

export class DiskRooms implements StorageRoom {
  readonly #shared: Shared;
  readonly #rooms: DiskRoom[] = [];
  readonly #measured: MeasuredDisk[] = [];

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  /** Undefined where no reserve is kept: the disk is then only measured. */
  open(component: string, directory: string): DiskRoom | undefined {
    if (this.#shared.reserveBytes === 0) {
      this.#measured.push({ component, directory });
      return undefined;
    }
    const neighbours = (): readonly DiskRoom[] =>
      this.#rooms.filter((each) => each !== room && diskOf(each.directory) === diskOf(directory));
    const room = new DiskRoom({ ...this.#shared, component, directory, neighbours });
    this.#rooms.push(room);
    return room;
  }

  states(): readonly RoomState[] {
    return [
      ...this.#rooms.map((room) => room.state()),
      ...this.#measured.flatMap((disk) => measureDisk(disk) ?? []),
    ];
  }

  warning(): string | undefined {
    // It is asked before each write: disks without a reserve have no complaint, and are not measured.
    const states = this.#rooms.map((room) => room.state());
    const metadata = states.find(({ component }) => component === 'metadata')?.warning;
    if (metadata !== undefined) return metadata;
    const data = states.filter(({ component }) => component !== 'metadata');
    // A write goes to one cluster, so space on any of them is enough.
    return data.every(({ warning }) => warning !== undefined) ? data[0]?.warning : undefined;
  }

  async close(): Promise<void> {
    await Promise.all(this.#rooms.map((room) => room.close()));
  }
}

/** The device; undefined where the directory does not exist yet. */
const diskOf = (directory: string): number | undefined => statSync(directory, { throwIfNoEntry: false })?.dev;

/** Undefined where the space cannot be measured, for example because the directory does not exist. */
function measureDisk({ component, directory }: MeasuredDisk): RoomState | undefined {
  try {
    const { bsize, blocks, bavail } = statfsSync(directory);
    return { component, freeBytes: bsize * bavail, sizeBytes: bsize * blocks };
  } catch {
    return undefined;
  }
}
