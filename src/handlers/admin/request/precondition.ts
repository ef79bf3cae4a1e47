/** Conditional writes of configurations: GET replies with an ETag, and a write with `If-Match` applies to that state alone. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AdminOperation } from '../../../protocol/operations/admin/row.ts';
import type { Wire } from '../../../protocol/request/wire.ts';

/**
 * Called with the JSON that GET would reply with, undefined where nothing is set, between the read and the commit of a change.
 * @throws PreconditionFailed
 */
export type Precondition = (present: object | undefined) => void;

type Ctx = Pick<Context, 'hasher'>;

export const etagOf = ({ hasher }: Ctx, body: string): string => `"${hasher.sha256Hex(body).slice(0, 32)}"`;

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
    const tag = present === undefined ? undefined : etagOf(ctx, JSON.stringify(present));
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
