/** A request to the operator API as its handler gets it: parameters and body are decoded by the schemas of its row. */
import type { Caller } from '../../auth/authorization/authorize.ts';
import type { Identity } from '../../auth/identity.ts';
import type { Context } from '../../context.ts';
import type { Recorder } from '../../domain/events/recorder.ts';
import { fail } from '../../errors/refusal.ts';
import type { Plain } from '../../protocol/formats/json.ts';
import type {
  AdminBody,
  AdminOperationName,
  AdminQuery,
  AdminReply,
} from '../../protocol/operations/admin.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import type { Wire } from '../../protocol/request/wire.ts';
import type { Entries, Fields } from './request/named-resources.ts';
import type { Precondition } from './request/precondition.ts';

export interface AdminRequest<N extends AdminOperationName = AdminOperationName> {
  readonly requestId: string;
  /** The caller. Absent only where the operation is open to anyone. */
  readonly identity: Identity;
  /** The caller as policies see it, for questions beyond this operation. */
  readonly caller: Caller;
  /** The parameters of the path, decoded. */
  readonly params: ReadonlyMap<string, string>;
  readonly query: AdminQuery<N>;
  readonly wire: Wire;
  /** Aborted when the client disconnects: long reads end then. */
  readonly signal: AbortSignal;
  /** Adds the audit row to the commits of a change; absent where the request changes nothing. */
  readonly record?: Recorder | undefined;
  readonly body: AdminBody<N>;
  /** The condition of If-Match, for writes of configurations. */
  readonly match: Precondition;
  /** For fields that the request names only indirectly. @throws AccessDenied where policies do not allow the operation with them */
  permit(found: Fields): Promise<void>;
  /** What policies say about the entries of the lists of the row. JSON replies are filtered by the router. */
  readonly entries: Entries;
}

export type AdminHandler<N extends AdminOperationName> = (
  ctx: Context,
  call: AdminRequest<N>,
) => Promise<JsonReply<Plain<AdminReply<N>>>>;
export type AdminHandlers = { readonly [N in AdminOperationName]: AdminHandler<N> };

/** `json` is the value of the body: the compiler compares it with the schema of the row, and the router leaves denied entries out. */
export interface JsonReply<T> extends Reply {
  readonly json?: T;
}

export const jsonReply = <T>(value: T, status = 200): JsonReply<T> => ({
  status,
  headers: [
    ['Content-Type', 'application/json'],
    ['Cache-Control', 'no-store'],
  ],
  body: JSON.stringify(value),
  json: value,
});

/** A name of the path. @throws NoSuchEntity for one that nothing can have */
export function nameIn({ params }: { readonly params: ReadonlyMap<string, string> }, kind: string): string {
  const name = params.get(kind) ?? '';
  if (/^[\w+=,.@-]{1,128}$/.test(name)) return name;
  throw fail('NoSuchEntity', `There is no ${kind} of this name.`);
}
