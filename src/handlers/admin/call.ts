/** A request to the operator API as its handler gets it, with its body read whole. */
import type { Identity } from '../../auth/identity.ts';
import type { Context } from '../../context.ts';
import type { Recorder } from '../../domain/events/recorder.ts';
import type { AdminOperationName } from '../../protocol/operations/admin.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import type { Query, Wire } from '../../protocol/request/wire.ts';

export interface AdminRequest {
  readonly requestId: string;
  /** The caller. Absent only where the operation is open to anyone. */
  readonly identity: Identity;
  /** The parameters of the path, decoded. */
  readonly params: ReadonlyMap<string, string>;
  readonly query: Query;
  readonly wire: Wire;
  /** Adds the audit row to the commits of a change; absent where the request changes nothing. */
  readonly record?: Recorder | undefined;
  readonly body: Uint8Array;
}

export type AdminHandler = (ctx: Context, call: AdminRequest) => Promise<Reply>;
export type AdminHandlers = { readonly [N in AdminOperationName]: AdminHandler };

export const jsonReply = (value: unknown, status = 200): Reply => ({
  status,
  headers: [
    ['Content-Type', 'application/json'],
    ['Cache-Control', 'no-store'],
  ],
  body: JSON.stringify(value),
});
