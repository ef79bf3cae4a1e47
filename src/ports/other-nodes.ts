/** The processes of the other nodes of this installation. A process asks them for what only they know, such as traces in their memory. */
export interface OtherNodes {
  /**
   * Asks every process of the other nodes. Resolves with the answers that came within `withinMs`, and how many processes gave none.
   * Never rejects. When the metadata cannot be read, it asks no other node.
   */
  ask(
    question: { readonly topic: string; readonly about: string },
    withinMs: number,
  ): Promise<{ readonly answers: readonly string[]; readonly silent: number }>;
  /** Answers the questions of other nodes about the topic. If `answer` throws, this process gives none. */
  answer(topic: string, answer: (about: string) => string): void;
  /** Begins to look for questions, until the signal. @param self this process */
  serve(self: { readonly node: string; readonly process: string }, signal: AbortSignal): Promise<void>;
}
