/** A closed day for export: whether it is known, and its rows as lines. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { dayMs, startOfDay } from './days.ts';
import type { ExportFormat } from './export-formats.ts';
import { findProgress } from './progress.ts';
import { trafficCloseMs } from './traffic-counter.ts';

type Ctx = Pick<Context, 'metadata'>;

const linesPerPiece = 256;

/** @throws NotFound for a day that is not closed yet, or of which nothing is known */
export async function assertClosed({ metadata }: Ctx, day: string): Promise<void> {
  const progress = await findProgress(metadata);
  if (progress === undefined || day > progress.closedThrough)
    throw fail(
      'NotFound',
      `The usage of ${day} is not written yet: the usage-rollup worker closes a day after its end.`,
    );
  if (progress.missed.includes(day))
    throw fail('NotFound', `No usage of ${day} is known, because no usage-rollup worker ran.`);
}

/** @throws NotFound for a day to which processes may still write */
export async function assertTrafficClosed({ metadata }: Ctx, day: string): Promise<void> {
  const closesAt = startOfDay(day) + dayMs + trafficCloseMs;
  if ((await metadata.now()) < closesAt)
    throw fail('NotFound', `The traffic of ${day} is complete from ${new Date(closesAt).toISOString()} on.`);
}

/** The lines of a day, some rows at a time, always in the same order. */
export async function* exportLines<Row>(
  rows: AsyncIterable<Row>,
  { header, toLines }: ExportFormat<Row>,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  let lines = header === undefined ? [] : [header];
  for await (const row of rows) {
    lines.push(...toLines(row));
    if (lines.length < linesPerPiece) continue;
    yield encoder.encode(`${lines.join('\n')}\n`);
    lines = [];
  }
  if (lines.length > 0) yield encoder.encode(`${lines.join('\n')}\n`);
}
