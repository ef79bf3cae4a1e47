/** Reads the JSON of a policy document strictly, so that all readers understand it in the same way. */
import { type Json, readStrictJson } from '../../../base/text/strict-json.ts';
import { malformed } from './malformed.ts';

export type { Json, JsonObject } from '../../../base/text/strict-json.ts';

/** @throws MalformedPolicy */
export const parseJson = (text: string): Json => readStrictJson(text, { refuse: malformed });
