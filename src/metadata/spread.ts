/** Spreads texts over slots, as rows are spread over shards. */
export { fnv32a, shardOf as spread } from '../ports/shard.ts';
