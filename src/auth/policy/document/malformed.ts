/** The refusal of a policy document: `MalformedPolicy`, with the place of the error and the expected form. */
import { fail, type Refusal } from '../../../errors/refusal.ts';

const shownMax = 80;

/** A value of the client's, short enough for a message. */
export const quoted = (text: string): string =>
  JSON.stringify(text.length > shownMax ? `${text.slice(0, shownMax)}…` : text);

/** @param at the place in the document, such as `Statement[2].Condition.StringLike`; '' for the whole of it */
export const malformed = (at: string, problem: string): Refusal =>
  fail('MalformedPolicy', at === '' ? `The policy ${problem}.` : `${at}: ${problem}.`);
