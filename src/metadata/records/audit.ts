/** The records of requests that are kept after their effect. */
import { table } from '../../ports/metadata-store.ts';

/** Who requested what, from where, with which result: one row for a request. */
export interface AuditRow {
  /** Hours since the epoch. */
  readonly hour: number;
  readonly slot: number;
  /** When the request arrived (ms since the epoch). */
  readonly time: number;
  /** The request's. */
  readonly id: string;
  /** The operation's name; `admin:<OperationName>` for operators' writes. */
  readonly action: string;
  /** `bucket:<name>`, or the ARN of what IAM keeps; '' where the action is about neither. */
  readonly resource: string;
  readonly key?: string;
  readonly status: number;
  /** The error's code, where it was refused or failed. */
  readonly error?: string;
  /** The caller's ARN, access key id and account; absent for callers that are not authenticated. */
  readonly principal?: string;
  readonly accessKey?: string;
  readonly account?: string;
  /** The client's address. */
  readonly source: string;
  /** How many refusals this row counts; absent for a single request. */
  readonly count?: number;
}
export const audit = table<AuditRow>()({
  name: 'audit',
  kind: 'plain',
  partition: ['hour', 'slot'],
  sort: ['time', 'id'],
  log: { keptInMemory: 16_384 },
  columns: {
    hour: 'int',
    slot: 'int',
    time: 'int',
    id: 'text',
    action: 'text',
    resource: 'text',
    key: 'text',
    status: 'int',
    error: 'text',
    principal: 'text',
    accessKey: 'text',
    account: 'text',
    source: 'text',
    count: 'int',
  },
});
