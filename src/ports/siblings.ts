/**
 * The other processes of this node. A process that caches state which another process may change (bucket rows, the states of
 * clusters) subscribes to a topic. The process that changes the state announces the change, and waits until the others have
 * dropped their cached copies.
 */
export interface Announcement {
  readonly topic: string;
  /** The subject of the change, such as a bucket's name; '' when the topic has only one. */
  readonly about: string;
}

export interface Siblings {
  /**
   * Call it after the commit. Resolves when every other process of this node has acted on the announcement, or after `withinMs`.
   * Pass the lifetime of the others' cached copies, so that the change is in effect in every process of the node once this has
   * resolved. Never rejects.
   * @returns whether every other process has acknowledged
   */
  announce(announcement: Announcement, withinMs: number): Promise<boolean>;
  /** Calls `act` for every announcement of another process about the topic. If `act` throws, the announcement is not acknowledged. */
  subscribe(topic: string, act: (about: string) => void): void;
  /**
   * Asks every other process of the node. Resolves with the answers that came within `withinMs`; a process that does not answer is left
   * out. Never rejects.
   */
  ask(announcement: Announcement, withinMs: number): Promise<readonly string[]>;
  /** Answers the questions of other processes about the topic. If `answer` throws, this process is left out. */
  answer(topic: string, answer: (about: string) => string): void;
}

/** For a node with one process. */
export const noSiblings: Siblings = {
  announce: async () => true,
  subscribe() {},
  ask: async () => [],
  answer() {},
};
