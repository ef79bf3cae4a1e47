/** ListAuditRecords: the audit log for operators, the newest first. */
import { readAudit } from '../../metadata/audit.ts';
import type { AuditRow } from '../../metadata/records/audit.ts';
import type { Query } from '../../protocol/request/wire.ts';
import { auditResult } from '../../protocol/schemas/account/recorded.ts';
import { defined } from '../common/parameters.ts';
import { xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { operatorsPage, readMoment, toPaging } from './operators-page.ts';

export const ListAuditRecords: HandlerOf<'ListAuditRecords'> = async (ctx, request) => {
  const { max, before } = await operatorsPage(ctx, request, 'audit');
  const now = ctx.clock.now();
  const kept = now - ctx.config.SVC_AUDIT_RETENTION;
  const { rows, next } = await readAudit(ctx.metadata, {
    // No record is older than the retention or newer than now, so a wide range costs no further reads.
    start: Math.max(readMoment(request, 'start') ?? kept, kept),
    end: Math.min(readMoment(request, 'end') ?? now, now),
    before: before && { time: before.at, id: before.id },
    max,
    matches: buildMatcher(request.query),
  });
  return xmlReply(auditResult, 'AuditLog', {
    Entries: rows.map(toEntry),
    ...toPaging(next && { at: next.time, id: next.id }),
  });
};

/** `identity` is an ARN, an access key id or an account. */
function buildMatcher(query: Query): (row: AuditRow) => boolean {
  const [bucket, action, identity] = ['bucket', 'action', 'identity'].map((name) => query.get(name));
  return (row) =>
    (bucket === undefined || row.resource === `bucket:${bucket}`) &&
    (action === undefined || row.action === action) &&
    (identity === undefined || [row.principal, row.accessKey, row.account].includes(identity));
}

const toEntry = (row: AuditRow) => ({
  Time: new Date(row.time).toISOString(),
  RequestId: row.id,
  Action: row.action,
  Resource: row.resource,
  Status: row.status,
  SourceIp: row.source,
  ...defined({
    Key: row.key,
    Error: row.error,
    Principal: row.principal,
    AccessKeyId: row.accessKey,
    Account: row.account,
    Count: row.count,
  }),
});
