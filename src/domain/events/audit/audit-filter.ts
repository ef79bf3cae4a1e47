/** Which rows of the audit log are asked for. */
import { requestOfRow } from '../../../metadata/audit/audit.ts';
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
  readonly key?: string | undefined;
  /** The beginning of a key. */
  readonly keyPrefix?: string | undefined;
  /** A field that the request changed, or a map of which it changed an entry. */
  readonly changed?: string | undefined;
}

export const auditMatcher =
  ({ bucket, action, identity, status, requestId, key, keyPrefix, changed }: AuditFilter) =>
  (row: AuditRow): boolean =>
    (bucket === undefined || row.resource === `bucket:${bucket}`) &&
    (action === undefined || row.action === action) &&
    (identity === undefined || [row.principal, row.accessKey, row.account].includes(identity)) &&
    (status === undefined || isOfStatus(row.status, status)) &&
    (requestId === undefined || requestOfRow(row).requestId === requestId) &&
    (key === undefined || namesKey(row, (each) => each === key)) &&
    (keyPrefix === undefined || namesKey(row, (each) => each.startsWith(keyPrefix))) &&
    (changed === undefined || changesField(row, changed));

/** Whether the row has a change of the field, or of an entry of that map. */
const changesField = ({ changes = [] }: AuditRow, changed: string): boolean =>
  changes.some(({ field }) => field === changed || field.startsWith(`${changed}.`));

/** Whether the row is about such a key, alone or among others. */
const namesKey = ({ key, keys = [] }: AuditRow, matches: (key: string) => boolean): boolean =>
  (key !== undefined && matches(key)) || keys.some((each) => matches(each.key));

const isOfStatus = (status: number, asked: string): boolean =>
  asked.endsWith('xx') ? asked.startsWith(String(status).slice(0, 1)) : asked === String(status);
