/** How much of what is written a cluster is to get, beside others. */
import { jsonInteger } from '../../../protocol/formats/json.ts';

export const jsonWeight = jsonInteger({ min: 0, max: 1_000_000 });
