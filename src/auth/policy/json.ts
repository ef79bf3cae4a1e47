/** Reads the JSON of a policy document strictly, so that all readers understand it in the same way. */

import { fail, type Refusal } from '../../base/errors.ts';
import { type Json, readStrictJson } from '../../base/text/strict-json.ts';

export type { Json, JsonObject } from '../../base/text/strict-json.ts';

/** @throws MalformedPolicy */
export const parseJson = (text: string): Json => readStrictJson(text, { refuse: malformed });

// The refusal of a policy document: `MalformedPolicy`, with the place of the error and the expected form.

const quotedMax = 80;

/** A value of the client's, short enough for a message. */
export const quoted = (text: string): string =>
  JSON.stringify(text.length > quotedMax ? `${text.slice(0, quotedMax)}…` : text);

/** @param at the place in the document, such as `Statement[2].Condition.StringLike`; '' for the whole of it */
export const malformed = (at: string, problem: string): Refusal =>
  fail('MalformedPolicy', at === '' ? `The policy ${problem}.` : `${at}: ${problem}.`);
