/** The third step: which operation is asked for, and what only that operation brings (spec "Service" 6.6). */
import type { Context } from '../context.ts';
import { fail } from '../errors/refusal.ts';
import { type Call, header } from '../handlers/call.ts';
import { assertKey } from '../handlers/key.ts';
import { serviceOf } from '../protocol/action-errors.ts';
import { noParameters } from '../protocol/action-query.ts';
import { describeOperation } from '../protocol/operations.ts';
import type { Scope } from '../protocol/request-line.ts';
import { select } from '../protocol/select.ts';
import type { Incoming, Query } from '../protocol/wire.ts';
import { acceptForm } from './accept-form.ts';
import { askedAction } from './asked-action.ts';
import type { Place } from './locate.ts';
import { Recording } from './recording.ts';
import type { Trace } from './trace.ts';

/** The facts that hold of any request about buckets and objects. */
export type Arrived = Omit<Call, 'operation' | 'parameters' | 'record' | 'body'>;

export interface Chosen {
  readonly row: ReturnType<typeof describeOperation>;
  readonly call: Omit<Call, 'body'>;
}

export interface Choosing {
  readonly place: Place;
  readonly scope: Scope;
  readonly incoming: Incoming;
  readonly trace: Trace;
}

/** Nothing is waited for but what stands in a body: an action, or a form. */
export function choose(ctx: Context, arrived: Arrived, choosing: Choosing): Chosen | Promise<Chosen> {
  const { place, scope } = choosing;
  if (place.isAction) return chooseAction(ctx, arrived, choosing);
  const { wire, query } = arrived;
  assertMeansOne(query);
  const operation = select(wire.method, scope, query, (name) => header(arrived, name) !== undefined);
  const about = { ...arrived, operation, parameters: noParameters };
  return operation === 'PostObject' ? chooseForm(ctx, about, choosing) : chosen(ctx, about, choosing);
}

/** @throws InvalidArgument for a parameter with two values (attacks 17) */
function assertMeansOne(query: Query): void {
  const name = query.ambiguousName();
  if (name === undefined) return;
  throw fail('InvalidArgument', {
    message: `The query parameter ${name.slice(0, 128)} is given more than once, with different values.`,
    elements: { ArgumentName: name.slice(0, 128) },
  });
}

async function chooseAction(ctx: Context, arrived: Arrived, choosing: Choosing): Promise<Chosen> {
  const { place, incoming, trace } = choosing;
  const asked = await askedAction(ctx, { ...arrived, incoming, held: trace }, place.control);
  // Its key may have been made inactive, or its user changed, while the body came.
  const identity = (await arrived.renew?.()) ?? arrived.identity;
  return chosen(ctx, { ...arrived, ...asked, identity }, choosing);
}

/** A form brings its own signature and headers. */
async function chooseForm(ctx: Context, about: Asked, choosing: Choosing): Promise<Chosen> {
  const form = await acceptForm(ctx, about);
  choosing.trace.dialect = form.dialect;
  return chosen(ctx, { ...about, ...form }, choosing);
}

type Asked = Arrived & Pick<Call, 'operation' | 'parameters'>;

function chosen(ctx: Context, about: Asked, { place, scope, trace }: Choosing): Chosen {
  const { requestId, wire, operation, identity, bucketName, key } = about;
  trace.operation = operation;
  const row = describeOperation(operation);
  if (place.isAction) trace.format = serviceOf(row.action);
  trace.call = about;
  if (row.audited) {
    const asked = { requestId, wire, action: operation, identity, bucketName, key, events: row.events };
    trace.recording = new Recording(ctx, asked);
  }
  if (scope === 'object') assertKey(key);
  return { row, call: { ...about, record: trace.recording } };
}
