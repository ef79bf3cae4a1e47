/** The rows of the audit log. */
import { int, json, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';

/** A field of a configuration that a request changed. */
export interface AuditChange {
  /** `weight`; for an entry of a map its name too: `placement.b`. */
  readonly field: string;
  /** JSON; absent where nothing was set. */
  readonly old?: unknown;
  /** JSON; absent where nothing is set any more. */
  readonly new?: unknown;
}

/** What limited the temporary credentials of a request, so that its decision can be explained later. */
export interface AuditedSession {
  /** The credentials of a log-in, whose session policy allows the storage protocol. */
  readonly isOfLogin?: true;
  /** The key that the session acted for, where the caller was a root or a user of the settings. */
  readonly parentKey?: string;
  /** The SHA-256 of the text of the session policy, in hexadecimal; the text is not stored. */
  readonly policySha256?: string;
  /** Ids of the managed policies that limited the session. */
  readonly managed?: readonly string[];
  /** The session began with a code of an MFA device. */
  readonly isMfa?: true;
  /** The session had tags of its own, which are not stored. */
  readonly isTagged?: true;
}

export interface AuditedKey {
  readonly key: string;
  readonly versionId?: string;
  /** What became of the key. Absent: the process ended before it recorded that. */
  readonly status?: number;
  readonly error?: string;
}

/** One row per request: the caller, the action, the source address and the result. */
export const audit = table({
  name: 'audit',
  kind: 'plain',
  isExported: true,
  partition: ['hour', 'slot'],
  sort: ['time', 'id'],
  log: { linesInMemory: 16_384 },
  columns: {
    /** Hours since the epoch. */
    hour: int(),
    slot: int(),
    /** When the request arrived (ms since the epoch); when it ended, if its hour had passed by then (`timeOfRow`). */
    time: int(),
    /** The request id; of a page of keys `<request id>/<page>`. */
    id: text(),
    /** The operation's name; `admin:<OperationName>` for operators' writes. */
    action: text(),
    /** `bucket:<name>`, or the ARN of an IAM entity; '' when the action is about neither. */
    resource: text(),
    key: optional(text()),
    status: int(),
    /** The error code of a request that was refused or failed. */
    error: optional(text()),
    /** The caller's ARN, access key id and account; absent for callers that are not authenticated. */
    principal: optional(text()),
    accessKey: optional(text()),
    account: optional(text()),
    /** The client's address. */
    source: text(),
    /** How many refusals this row counts; absent for a single request. */
    count: optional(int()),
    /** The keys of a request about many, such as DeleteObjects: as many as fit into a row (`gateway/recording.ts`). */
    keys: optional(json<readonly AuditedKey[]>()),
    /** What an operation of the operator API changed, of the fields that its row in the table of operations records. */
    changes: optional(json<readonly AuditChange[]>()),
    /** Set where the caller had temporary credentials. */
    session: optional(json<AuditedSession>()),
  },
});
export interface AuditRow extends RowOf<typeof audit> {}
