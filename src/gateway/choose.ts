/** The third step: which operation is asked for, and what only that operation brings (spec "Service" 6.6). */
import type { Context } from '../context.ts';
import { type Call, header } from '../handlers/call.ts';
import { assertKey } from '../handlers/key.ts';
import { serviceOf } from '../protocol/action-errors.ts';
import { noParameters } from '../protocol/action-query.ts';
import { describeOperation, type Scope } from '../protocol/operations.ts';
import { select } from '../protocol/select.ts';
import type { Incoming } from '../protocol/wire.ts';
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

export async function choose(
  ctx: Context,
  arrived: Arrived,
  {
    place,
    scope,
    incoming,
    trace,
  }: { readonly place: Place; readonly scope: Scope; readonly incoming: Incoming; readonly trace: Trace },
): Promise<Chosen> {
  const { operation, parameters } = place.isAction
    ? await askedAction(ctx, { ...arrived, incoming, held: trace }, place.control)
    : {
        operation: select(
          arrived.wire.method,
          scope,
          arrived.query,
          (name) => header(arrived, name) !== undefined,
        ),
        parameters: noParameters,
      };
  // A form brings its own signature and headers.
  const form = operation === 'PostObject' ? await acceptForm(ctx, arrived) : undefined;
  if (form !== undefined) trace.dialect = form.dialect;
  trace.operation = operation;
  const row = describeOperation(operation);
  if (place.isAction) trace.format = serviceOf(row.action);
  const about = { ...arrived, operation, parameters, ...form };
  trace.call = about;
  if (row.audited) trace.recording = new Recording(ctx, { ...about, action: operation, events: row.events });
  if (scope === 'object') assertKey(arrived.key);
  return { row, call: { ...about, record: trace.recording } };
}
