/** The JSON of a policy document: strict, so that it means what its first reader saw. */
import { type Json, readStrictJson } from '../../../base/text/strict-json.ts';
import { malformed } from './malformed.ts';

export type { Json, JsonObject } from '../../../base/text/strict-json.ts';

/** @throws MalformedPolicy */
export const parseJson = (text: string): Json => readStrictJson(text, { refuse: malformed });
