/**
 * `Idempotency-Key` of POST requests: a repetition of a request gets the answer of the first, so that a client whose connection broke does
 * not start something twice (docs/adr/0027-the-operator-api-is-one-table.md).
 */

import { fail, Refusal } from '../../base/errors.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import {
  countKeys,
  findAnswer,
  type IdempotencyRow,
  keysOfAccountMax,
  putAnswer,
  removeAnswer,
} from '../../metadata/idempotency.ts';
import { commitLimits } from '../../ports/metadata-store.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import type { Wire } from '../../protocol/request/wire.ts';
import { jsonReply } from './call.ts';

interface Repeatable {
  readonly wire: Pick<Wire, 'headers'>;
  /** The path and the query, decoded. */
  readonly target: string;
  readonly account: string;
  /** The ARN of the caller: an answer is replayed to its own caller only, because policies may hide parts of it from others. */
  readonly principal: string;
  readonly body: Uint8Array;
  readonly row: { readonly method: string; readonly repeatable: boolean };
}

type Ctx = Pick<Context, 'metadata' | 'hasher' | 'telemetry'>;

const keptMs = 24 * 60 * 60 * 1000;
/** A row also has its id, the request and what the backend adds. */
const bodyMax = commitLimits.rowBytes - 1_024;

/** Runs the handler, unless the key of the request has an answer. @throws InvalidArgument, IdempotencyKeyReused, OperationAborted, LimitExceeded */
export async function onceOnly(ctx: Ctx, asked: Repeatable, run: () => Promise<Reply>): Promise<Reply> {
  const key = asked.wire.headers.get('idempotency-key');
  if (key === undefined) return run();
  assertKey(key, asked);
  const row = describe(ctx, key, asked);
  const kept = { row, account: asked.account };
  const expiresAt = (await ctx.metadata.now()) + keptMs;
  const revision = await putAnswer(ctx.metadata, kept, { expect: 'absent', expiresAt });
  if (revision === undefined) return replay(ctx, row);
  let reply: Reply;
  let isFull = false;
  try {
    // Counted after the reservation, so that concurrent requests cannot exceed the limit together.
    isFull = (await countKeys(ctx.metadata, asked.account)) > keysOfAccountMax;
    if (isFull) throw tooManyKeys();
    reply = await run();
  } catch (cause) {
    // A refusal is not kept: the client may try again. Another failure leaves the row, because its outcome is unknown.
    if (cause instanceof Refusal) await removeAnswer(ctx.metadata, kept, revision);
    ctx.telemetry.idempotencyKey(isFull ? 'full' : 'not-kept');
    throw cause;
  }
  const body = typeof reply.body === 'string' ? reply.body : '';
  const isKept = body.length * 3 <= bodyMax;
  ctx.telemetry.idempotencyKey(isKept ? 'kept' : 'not-kept');
  if (!isKept) await removeAnswer(ctx.metadata, kept, revision);
  else {
    const answered = { ...row, status: reply.status, body };
    await putAnswer(ctx.metadata, { ...kept, row: answered }, { expect: revision, expiresAt });
  }
  return reply;
}

function assertKey(key: string, { row }: Repeatable): void {
  if (row.method !== 'POST') throw refuse('Only POST requests take an Idempotency-Key.');
  // A kept answer would let its secret be read again, and a kept hash of a body would let its secret be guessed.
  if (!row.repeatable)
    throw refuse(
      'The answer of this operation is not kept, because it has a secret or is a stream: send it without the header.',
    );
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw refuse('Idempotency-Key must be 1 to 255 printable ASCII characters without spaces.');
}

const tooManyKeys = () =>
  fail('LimitExceeded', {
    message: `The account has used ${keysOfAccountMax} values of Idempotency-Key within 24 hours: send the request without the header, or later.`,
    field: 'Idempotency-Key',
  });

const refuse = (message: string) => fail('InvalidArgument', { message, field: 'Idempotency-Key' });

function describe(
  { hasher }: Ctx,
  key: string,
  { target, account, principal, body }: Repeatable,
): IdempotencyRow {
  const content = toHex(hasher.once('sha256', body));
  return {
    id: hasher.sha256Hex(JSON.stringify([account, principal, key])),
    request: hasher.sha256Hex(JSON.stringify([target, content])),
    status: 0,
    body: '',
  };
}

async function replay({ metadata, telemetry }: Ctx, asked: IdempotencyRow): Promise<Reply> {
  const found = (await findAnswer(metadata, asked.id))?.row;
  if (found !== undefined && found.request !== asked.request) {
    telemetry.idempotencyKey('other-request');
    throw fail('IdempotencyKeyReused');
  }
  if (found === undefined || found.status === 0) {
    telemetry.idempotencyKey('unanswered');
    throw fail(
      'OperationAborted',
      'The first request with this Idempotency-Key has no answer yet. GET the state of what it began before another attempt.',
    );
  }
  telemetry.idempotencyKey('replayed');
  const { status, body } = found;
  const replayed = ['Idempotency-Replayed', 'true'] as const;
  if (body === '') return { status, headers: [replayed] };
  const reply = jsonReply(undefined, status);
  return { ...reply, headers: [...reply.headers, replayed], body };
}
