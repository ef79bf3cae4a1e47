/** What a gateway has recorded of its requests, read row by row. */
import type { Context } from '../../src/context.ts';
import { readAudit } from '../../src/metadata/audit.ts';
import type { AuditRow } from '../../src/metadata/recorded.ts';

type World = Pick<Context, 'metadata' | 'clock'>;

/** Every audit row of the last hours, the oldest first. */
export async function auditRows({ metadata, clock }: World): Promise<readonly AuditRow[]> {
  const now = clock.now();
  const wanted = { start: now - 3 * 3_600_000, end: now + 60_000, max: 10_000, matches: () => true };
  const { rows, next } = await readAudit(metadata, wanted);
  if (next !== undefined) throw new Error('there are more audit rows than a test looks at');
  return rows.toReversed();
}

/** What was asked and what came of it, in few words: `PutObject bucket:b/key 200`. */
export const inShort = ({ action, resource, key, status, error }: AuditRow): string =>
  `${action} ${resource}${key === undefined ? '' : `/${key}`} ${status}${error === undefined ? '' : ` ${error}`}`;
