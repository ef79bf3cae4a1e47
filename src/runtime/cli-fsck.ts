/** `sluice fsck`: compares metadata and data of a data directory, and only reports (issue 3, "What it must reach"). */
import { existsSync } from 'node:fs';
import { type FsckFinding, type FsckSummary, runFsck } from '../domain/fsck.ts';
import { compose } from './compose.ts';
import type { Configuration } from './configuration.ts';

/** Something was found; 2 is a faulty command line. */
const foundCode = 1;

/** Why there is nothing to compare; undefined when there is. */
export function fsckFault({ config }: Configuration): string | undefined {
  if (config.SVC_META_BACKEND === 'memory') return 'fsck compares what is kept: it needs --data-dir';
  const { SVC_DATA_DIR: directory } = config;
  return directory === undefined || existsSync(directory) ? undefined : `there is no directory ${directory}`;
}

/** Beside a running gateway or without one. Resolves with the exit code. */
export async function checkData({ config }: Configuration, asJson: boolean): Promise<number> {
  const stopping = new AbortController();
  process.once('SIGINT', () => stopping.abort(new Error('interrupted')));
  const { context, close } = await compose(config, { credentials: [] });
  try {
    const print = (finding: FsckFinding): void => {
      process.stdout.write(`${asJson ? JSON.stringify(finding) : lineOf(finding)}\n`);
    };
    const summary = await runFsck(context, print, stopping.signal);
    process.stdout.write(asJson ? `${JSON.stringify({ summary })}\n` : summaryOf(summary));
    return summary.found === 0 ? 0 : foundCode;
  } finally {
    await close();
  }
}

function lineOf({ kind, detail, ...place }: FsckFinding): string {
  const where = Object.entries(place).map(([name, value]) => `${name}=${value}`);
  return [kind, ...where, detail].join('  ');
}

function summaryOf(summary: FsckSummary): string {
  const { buckets, versions, parts, named, stored, leaving, found, findings } = summary;
  const kinds = Object.entries(findings).filter(([, count]) => count > 0);
  const verdict = found === 0 ? 'all is well' : kinds.map(([kind, count]) => `${count} ${kind}`).join(', ');
  return [
    `${buckets} buckets, ${versions} versions, ${parts} parts in progress`,
    `${named} extents named, ${stored} stored, ${leaving} about to be deleted`,
    `${verdict}\n`,
  ].join('\n');
}
