/**
 * The memory for bodies that are read whole, for all requests of a process together: a part of `SVC_MEMORY_MAX`. Bodies cannot wait for
 * each other, because none releases memory before its end: a request that does not fit is refused.
 */
export interface BodyMemory {
  /** Reserves this many more bytes until they are given back. @returns false where they do not fit */
  take(bytes: number): boolean;
  give(bytes: number): void;
}
