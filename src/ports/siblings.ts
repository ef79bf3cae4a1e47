/**
 * The other processes of this node. A process that remembers state which another process may change (bucket rows, the
 * states of clusters) heeds a topic; the process that changes it announces that, and waits until the others have
 * dropped what they remembered.
 */
export interface Announcement {
  readonly topic: string;
  /** The subject of the change, such as a bucket's name; '' where the topic has only one. */
  readonly about: string;
}

export interface Siblings {
  /**
   * Call it after the commit. Resolves when every other process of this node has acted on the announcement, or after
   * `withinMs`: pass the age at which the others stop believing what they remember, so that the change holds in every
   * process of the node once this has resolved. Never rejects.
   * @returns whether every other process has acknowledged
   */
  announce(announcement: Announcement, withinMs: number): Promise<boolean>;
  /** Calls `act` for every announcement of another process about the topic. One that throws is not acknowledged. */
  heed(topic: string, act: (about: string) => void): void;
}

/** For a node with one process. */
export const noSiblings: Siblings = { announce: async () => true, heed() {} };
