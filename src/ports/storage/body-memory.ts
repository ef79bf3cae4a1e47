/**
 * The memory for bodies that are read whole, of all requests of a process together: a part of `SVC_MEMORY_MAX`. Bodies
 * cannot wait for each other, because none of them gives anything back before its end: who finds none left is refused.
 */
export interface BodyMemory {
  /** Whether so many more bytes may be held; if so they are, until they are given back. */
  take(bytes: number): boolean;
  give(bytes: number): void;
}
