/** A closed day for export: whether it is known, and its rows as lines. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { dayMs, startOfDay } from './days.ts';
import type { ExportFormat } from './export-formats.ts';
import { findProgress, isMissed } from './progress.ts';
import { trafficCloseMs, trafficKeptMs } from './traffic-counter.ts';

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
  const { since } = progress;
  if (since !== undefined && day < since)
    throw fail('NotFound', `No usage of ${day} is known: a usage-rollup worker first ran on ${since}.`);
  if (isMissed(progress, day))
    throw fail('NotFound', `No usage of ${day} is known, because no usage-rollup worker ran.`);
}

/** @throws NotFound for a day to which processes may still write, or whose rows are no longer kept */
export async function assertTrafficClosed({ metadata }: Ctx, day: string): Promise<void> {
  const closesAt = startOfDay(day) + dayMs + trafficCloseMs;
  const now = await metadata.now();
  if (now < closesAt)
    throw fail('NotFound', `The traffic of ${day} is complete from ${new Date(closesAt).toISOString()} on.`);
  if (now >= startOfDay(day) + trafficKeptMs)
    throw fail(
      'NotFound',
      `The traffic of ${day} is no longer kept: its rows are kept for ${trafficKeptMs / dayMs} days.`,
    );
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
