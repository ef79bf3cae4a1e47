/** `node bench/micro.ts [name …]`: parts of the hot path alone, each beside its lower bound. */
import type { Piece } from './lib/micro.ts';
import { table } from './lib/report.ts';
import { authorize } from './micro/authorize.ts';
import { checksums } from './micro/checksums.ts';
import { chunks } from './micro/chunks.ts';
import { cipher } from './micro/cipher.ts';
import { counterTime } from './micro/counter-time.ts';
import { dispatch } from './micro/dispatch.ts';
import { handle } from './micro/handle.ts';
import { listPage } from './micro/list-page.ts';
import { patterns } from './micro/patterns.ts';
import { rateLimits } from './micro/rate-limits.ts';
import { rowChecksums } from './micro/row-checksum.ts';
import { signature } from './micro/signature.ts';
import { unaskedRows } from './micro/unasked-rows.ts';
import { xml } from './micro/xml.ts';

const all = {
  signature,
  authorize,
  dispatch,
  xml,
  chunks,
  checksums,
  cipher,
  handle,
  'counter-time': counterTime,
  'list-page': listPage,
  patterns,
  'rate-limits': rateLimits,
  'row-checksum': rowChecksums,
  'unasked-rows': unaskedRows,
};

const micros = (value: number): string =>
  value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? 2 : 1 });

const chosen = process.argv.slice(2);
const pieces: Piece[] = [];
for (const [name, run] of Object.entries(all)) {
  if (chosen.length === 0 || chosen.includes(name)) pieces.push(...(await run()));
}
const rows = pieces.map(({ name, micros: own, floor }) => [
  name,
  floor?.name ?? '',
  micros(own),
  floor === undefined ? '' : micros(floor.micros),
  floor === undefined ? '' : `${(own / floor.micros).toFixed(1)}×`,
]);
process.stdout.write(`${table([['', 'floor', 'CPU µs', 'floor µs', 'ratio'], ...rows])}\n`);
