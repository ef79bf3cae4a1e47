/**
 * Sends messages one beside the other, but those of one subject one after the other: when one of them fails, none of its subject has
 * overtaken it.
 */
import type { Delivery, SinkFailure, SinkMessage } from '../../ports/event-sink.ts';

/** The longest prefixes in which no subject is twice. */
export function* waves(messages: readonly SinkMessage[], max = messages.length): Generator<SinkMessage[]> {
  let wave: SinkMessage[] = [];
  const subjects = new Set<string>();
  for (const message of messages) {
    if (subjects.has(message.subject) || wave.length >= max) {
      yield wave;
      wave = [];
      subjects.clear();
    }
    subjects.add(message.subject);
    wave.push(message);
  }
  if (wave.length > 0) yield wave;
}

/** @param send resolves when the sink has acknowledged; with a failure when it has not */
export async function sendInWaves(
  messages: readonly SinkMessage[],
  send: (message: SinkMessage) => Promise<SinkFailure | undefined>,
): Promise<Delivery> {
  let delivered = 0;
  for (const wave of waves(messages)) {
    const answers = await Promise.all(wave.map(send));
    const failed = answers.findIndex((failure) => failure !== undefined);
    if (failed >= 0) return { delivered: delivered + failed, failure: answers[failed] as SinkFailure };
    delivered += wave.length;
  }
  return { delivered };
}
