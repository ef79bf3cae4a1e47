/**
 * The memory for bodies that are read whole, for all requests of a process together: a part of `SVC_MEMORY_MAX`. A request that does
 * not fit is refused and does not wait, because no body releases memory before its end, so waiting bodies could deadlock.
 */
export interface BodyMemory {
  /** Reserves this many more bytes until `give` returns them. @returns false when they do not fit */
  take(bytes: number): boolean;
  give(bytes: number): void;
}
