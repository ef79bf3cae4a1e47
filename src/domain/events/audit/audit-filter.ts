/** Which rows of the audit log are asked for. */
import type { AuditRow } from '../../../metadata/records/audit.ts';

/** Absent: any. */
export interface AuditFilter {
  readonly bucket?: string | undefined;
  readonly action?: string | undefined;
  /** An ARN, an access key id or an account. */
  readonly identity?: string | undefined;
  /** A status such as `403`, or a class of them such as `4xx`. */
  readonly status?: string | undefined;
  readonly requestId?: string | undefined;
}

export const auditMatcher =
  ({ bucket, action, identity, status, requestId }: AuditFilter) =>
  (row: AuditRow): boolean =>
    (bucket === undefined || row.resource === `bucket:${bucket}`) &&
    (action === undefined || row.action === action) &&
    (identity === undefined || [row.principal, row.accessKey, row.account].includes(identity)) &&
    (status === undefined || isOfStatus(row.status, status)) &&
    (requestId === undefined || row.id === requestId);

const isOfStatus = (status: number, asked: string): boolean =>
  asked.endsWith('xx') ? asked.startsWith(String(status).slice(0, 1)) : asked === String(status);
