/** Errors as operators read them: bounded, and without secrets. */
import { maskParameters } from './mask-secrets.ts';

const causesMax = 4;

const messageMax = 500;

/** The messages of an error and of its causes: the last one has the text of the operating system. */
export function describeError(cause: unknown): string {
  const messages: string[] = [];
  for (let at = cause; at instanceof Error && messages.length < causesMax; at = at.cause)
    messages.push(at.message);
  const text = messages.length === 0 ? String(cause) : messages.join(': ');
  return maskParameters(text.slice(0, messageMax), '[redacted]');
}
