/** The free space of one directory's disk, where no reserve is kept (`SVC_DISK_RESERVE=0`): operators see it all the same. */
import fs from 'node:fs';
import type { RoomState } from '../../ports/storage/storage-room.ts';

/** How often metrics get the free space. */
export const timerMs = 2_000;

export interface MeasuredDiskOptions {
  /** `metadata`, or `data:<cluster>`. */
  readonly component: string;
  readonly directory: string;
  /** Called with each measurement of the timer. */
  readonly onLook?: (state: RoomState) => void;
}

export class MeasuredDisk {
  readonly #options: MeasuredDiskOptions;
  readonly #timer: NodeJS.Timeout;

  constructor(options: MeasuredDiskOptions) {
    this.#options = options;
    this.#timer = setInterval(() => {
      const state = this.state();
      if (state !== undefined) options.onLook?.(state);
    }, timerMs);
    this.#timer.unref?.();
  }

  /** Undefined where the space cannot be measured, for example because the directory does not exist. */
  state(): RoomState | undefined {
    const { component, directory } = this.#options;
    try {
      const { bsize, blocks, bavail } = fs.statfsSync(directory);
      return { component, freeBytes: bsize * bavail, sizeBytes: bsize * blocks };
    } catch {
      return undefined;
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
