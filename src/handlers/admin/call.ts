/** A request to the operator API as its handler gets it: parameters and body are decoded by the schemas of its row. */
import type { Caller } from '../../auth/authorize.ts';
import type { Identity } from '../../auth/identity.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { Recorder } from '../../domain/common/recorder.ts';
import { openTurns } from '../../domain/common/turns.ts';
import type { Refused } from '../../domain/lanes/refused-objects.ts';
import type { FailingTarget } from '../../domain/lanes/target-states.ts';
import type { Account } from '../../ports/credentials.ts';
import type {
  AdminBody,
  AdminOperationName,
  AdminQuery,
  AdminReply,
} from '../../protocol/admin/operations.ts';
import type { AdminOperation } from '../../protocol/admin/row.ts';
import type { Plain } from '../../protocol/formats/json.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Wire } from '../../protocol/wire.ts';
import { type Entries, type Fields, visible } from './named-resources.ts';

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
  /** Performs another operation that only reads, as this caller. @throws what that operation refuses */
  read(asked: AskedRead): Promise<Reply>;
  /** What policies say about the entries of the lists of the row. JSON replies are filtered by the router. */
  readonly entries: Entries;
}

/**
 * The turns of a call: those of its caller's account, so that an operator with many calls has as many turns as one with a single call.
 * @param options isParallel: see `openTurns` @returns a function to await between the pieces of the call; it throws once the client has
 *   disconnected
 */
export const openCallTurns = (
  { clock }: Pick<Context, 'clock'>,
  { signal, identity }: Pick<AdminRequest, 'signal' | 'identity'>,
  options: { readonly isParallel?: boolean } = {},
): (() => Promise<void>) => openTurns(clock, { ...options, signal, account: identity?.owner });

/** An operation with its parameters, decoded. */
export interface AskedRead {
  readonly operation: string;
  readonly path?: ReadonlyMap<string, string> | undefined;
  readonly query?: ReadonlyMap<string, string> | undefined;
  readonly body?: unknown;
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

/** Leaves the entries out of a reply that are about resources that policies deny the caller. */
export async function withoutDenied(
  reply: JsonReply<unknown>,
  { lists = {} }: Pick<AdminOperation, 'lists'>,
  entries: Entries,
): Promise<JsonReply<unknown>> {
  const { json } = reply;
  if (json === undefined || json === null) return reply;
  const displayed: Record<string, unknown> = {};
  for (const list of Object.keys(lists)) {
    const all = (json as Fields)[list];
    if (!Array.isArray(all)) continue;
    const left = await visible(entries, list, all);
    if (left.length < all.length) displayed[list] = left;
  }
  return Object.keys(displayed).length === 0 ? reply : jsonReply({ ...json, ...displayed }, reply.status);
}

/** A name of the path. @throws NoSuchEntity for one that nothing can have */
export function nameIn({ params }: { readonly params: ReadonlyMap<string, string> }, kind: string): string {
  const name = params.get(kind) ?? '';
  // The longest are those of MFA devices.
  if (/^[\w+=,.@-]{1,226}$/.test(name)) return name;
  throw fail('NoSuchEntity', `There is no ${kind} of this name.`);
}

// Times in the bodies of the operator API.

const toSeconds = '2026-01-31T12:00:00'.length;

/** Of a `moment`, whose form the schema has checked. @returns ms since the epoch @throws InvalidArgument for a day such as 2026-02-31 */
export function readTime<T extends string | undefined>(
  field: string,
  input: T,
): T extends string ? number : undefined;
export function readTime(field: string, input: string | undefined): number | undefined {
  if (input === undefined) return undefined;
  const time = Date.parse(input);
  // Engines take a day such as the 31st of February for one of March.
  const isOfCalendar =
    !Number.isNaN(time) && new Date(time).toISOString().startsWith(input.slice(0, toSeconds));
  if (!isOfCalendar)
    throw fail('InvalidArgument', {
      message: `${field} is no time of the calendar, such as 2026-01-31T12:00:00Z.`,
      field,
    });
  return time;
}

/** Times of replies are in whole seconds, those of rows in ms. */
export const seconds = (ms: number): number => Math.floor(ms / 1000);

/** The state of a long task. */
export const runState = (finishedAt: number | undefined): 'running' | 'done' =>
  finishedAt === undefined ? 'running' : 'done';

// Whether a target of events or replication takes what it is sent.

const none: Refused = { objects: 0, reasons: [] };

export const failingJson = (failing: FailingTarget | undefined) => ({
  ...(failing === undefined || failing.failures === 0
    ? { state: 'ok' as const }
    : {
        state: 'failing' as const,
        failures: failing.failures,
        lastError: { at: new Date(failing.at).toISOString(), message: failing.error },
      }),
  refused: failing?.refused ?? none,
});

// Conditional writes of configurations: GET replies with an ETag, and a write with `If-Match` applies to that state alone.

/**
 * Called with the JSON that GET would reply with, undefined where nothing is set, between the read and the commit of a change.
 * @throws PreconditionFailed
 */
export type Precondition = (present: object | undefined) => void;

type Ctx = Pick<Context, 'hasher'>;

export const computeEtag = ({ hasher }: Ctx, body: string): string =>
  `"${hasher.sha256Hex(body).slice(0, 32)}"`;

/** @throws InvalidRequest where the operation takes no condition: it must not be ignored */
export function readPrecondition(
  ctx: Ctx,
  { headers }: Pick<Wire, 'headers'>,
  { conditional }: Pick<AdminOperation, 'conditional'>,
): Precondition {
  const match = headers.get('if-match');
  const noneMatch = headers.get('if-none-match');
  if (match === undefined && noneMatch === undefined) return () => undefined;
  if (conditional !== true)
    throw fail('InvalidRequest', {
      message: 'This operation takes neither If-Match nor If-None-Match.',
      field: match === undefined ? 'If-None-Match' : 'If-Match',
    });
  if (noneMatch !== undefined && (noneMatch !== '*' || match !== undefined))
    throw fail('InvalidRequest', {
      message: 'If-None-Match must be *, without If-Match.',
      field: 'If-None-Match',
    });
  return (present) => {
    const tag = present === undefined ? undefined : computeEtag(ctx, JSON.stringify(present));
    const holds =
      noneMatch !== undefined ? tag === undefined : tag !== undefined && isListed(match ?? '', tag);
    if (!holds)
      throw fail('PreconditionFailed', {
        message:
          tag === undefined
            ? 'Nothing is set now.'
            : `The present state is another: its ETag is ${tag}. GET it and decide again.`,
      });
  };
}

const isListed = (header: string, tag: string): boolean =>
  header.split(',').some((each) => each.trim() === tag || each.trim() === '*');

/** @throws NoSuchEntity for an account that neither the settings nor a profile has */
export async function findAccount(
  { credentials }: Pick<Context, 'credentials'>,
  params: ReadonlyMap<string, string>,
): Promise<Account> {
  const owner = params.get('account') ?? '';
  const found = await credentials.account({ owner });
  if (found === undefined) throw fail('NoSuchEntity', `There is no account ${owner}.`);
  return found;
}

/**
 * The root of an operators' account writes the policies of its operators, so a key of this root is worth every permission. Policies
 * cannot give one to an operator that has fewer.
 * @throws AccessDenied for a caller whose own key is no operator
 */
export function assertMayChangeRootKeys(
  account: Pick<Account, 'owner' | 'isOperators'> | undefined,
  identity: Identity,
): void {
  if (account?.isOperators !== true || identity?.operator === true) return;
  throw fail(
    'AccessDenied',
    `${account.owner} is an account of operators: only a key with "operator": true in SVC_CREDENTIALS creates, reads or changes keys of its root.`,
  );
}
