/** Sets the weight of a cluster: its share of new writes. */
import { jsonInteger } from '../../../protocol/formats/json.ts';

export const jsonWeight = jsonInteger({ min: 0, max: 1_000_000 });
