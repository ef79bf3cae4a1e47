/** ListAuditRecords: the audit log for operators, the newest first. */
import { auditMatcher } from '../../domain/events/audit/audit-filter.ts';
import { openTurns } from '../../domain/storage/turns.ts';
import { readAudit, requestOfRow } from '../../metadata/audit/audit.ts';
import type { AuditRow } from '../../metadata/records/audit.ts';
import { auditResult } from '../../protocol/schemas/account/recorded.ts';
import { visible } from '../admin/request/named-resources.ts';
import { defined } from '../common/parameters.ts';
import { xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { operatorsPage, readMoment, toPaging } from './operators-page.ts';

export const ListAuditRecords: HandlerOf<'ListAuditRecords'> = async (ctx, request) => {
  const { max, before, entries } = await operatorsPage(ctx, request, 'audit', request.query.get('bucket'));
  const now = ctx.clock.now();
  const kept = now - ctx.config.SVC_AUDIT_RETENTION;
  const { rows, next } = await readAudit(ctx.metadata, {
    // No record is older than the retention or newer than now, so a wide range costs no further reads.
    start: Math.max(readMoment(request, 'start') ?? kept, kept),
    end: Math.min(readMoment(request, 'end') ?? now, now),
    before: before && { time: before.at, id: before.id },
    max,
    matches: auditMatcher({
      bucket: request.query.get('bucket'),
      action: request.query.get('action'),
      identity: request.query.get('identity'),
    }),
    rest: openTurns(ctx.clock, request.signal),
  });
  return xmlReply(auditResult, 'AuditLog', {
    Entries: (await visible(entries, 'rows', rows)).map(toEntry),
    ...toPaging(next && { at: next.time, id: next.id }),
  });
};

const toEntry = (row: AuditRow) => {
  const { requestId, page } = requestOfRow(row);
  return {
    Time: new Date(row.time).toISOString(),
    RequestId: requestId,
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
      Page: page,
      Keys: row.keys?.map(({ key, versionId, status, error }) => ({
        Key: key,
        ...defined({ VersionId: versionId, Status: status, Error: error }),
      })),
    }),
  };
};
