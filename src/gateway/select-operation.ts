/** The third stage: which operation the request asks for, and the parameters of an action or a form. */
import { fail } from '../base/errors.ts';
import type { Context } from '../context.ts';
import { configurationFields, iamFields } from '../protocol/admin/row.ts';
import { describeOperation, type OperationName } from '../protocol/operations/operations.ts';
import { select } from '../protocol/operations/select.ts';
import { serviceOf } from '../protocol/render.ts';
import { noParameters, type Parameters, type Query } from '../protocol/wire.ts';
import { assertKey, header } from '../request/parameters.ts';
import { establish, type Identified, type Selected } from '../request/request.ts';
import { acceptForm } from './accept-form.ts';
import { findApplicationSession, isForApplication } from './application-session.ts';
import { limitCaller } from './limit.ts';
import { readAction } from './read-action.ts';
import { Recording } from './recording.ts';

/** Reads the body where it names the operation: of an action, or of a form. */
export function selectOperation(ctx: Context, request: Identified): Promise<Selected> {
  if (request.isAction) return selectAction(ctx, request);
  const { wire, query, scope } = request;
  assertMeansOne(query);
  const operation = select(wire.method, scope, query, (name) => header(request, name) !== undefined);
  return operation === 'PostObject'
    ? selectForm(ctx, request)
    : selectIdentified(ctx, request, { operation, parameters: noParameters });
}

/** @throws InvalidArgument for a parameter with two values */
function assertMeansOne(query: Query): void {
  const name = query.ambiguousName();
  if (name === undefined) return;
  throw fail('InvalidArgument', {
    message: `The query parameter ${name.slice(0, 128)} is given more than once, with different values.`,
    elements: { ArgumentName: name.slice(0, 128) },
  });
}

async function selectAction(ctx: Context, request: Identified): Promise<Selected> {
  const asked = await readAction(ctx, request);
  // The caller's key may have been made inactive, or its user changed, while the body arrived.
  const identity = (await request.renew?.()) ?? request.identity;
  return selected(ctx, establish(request, { identity }), asked);
}

/** A form brings its own signature and headers. */
async function selectForm(ctx: Context, request: Identified): Promise<Selected> {
  const { parameters, ...signed } = await acceptForm(ctx, request);
  return selectIdentified(ctx, establish(request, signed), { operation: 'PostObject', parameters });
}

/** Where no key has signed the request, the application may know its caller. @throws AccessDenied where it lets nothing pass */
async function selectIdentified(
  ctx: Context,
  request: Identified,
  asked: { readonly operation: OperationName; readonly parameters: Parameters },
): Promise<Selected> {
  if (!isForApplication(ctx, request)) return selected(ctx, request, asked);
  const { operation } = asked;
  const row = describeOperation(operation);
  const { refused, ...caller } = await findApplicationSession(ctx, request, { operation, row });
  const found = selected(ctx, establish(request, caller), asked);
  if (refused !== undefined) throw refused;
  if (found.identity !== undefined) await limitCaller(ctx, found);
  return found;
}

/** Of a bucket and of IAM, the rows of the public protocols show the same changes as those of the operator API. */
const recordedFields = ({ scope }: Pick<Identified, 'scope'>, { action }: { readonly action: string }) =>
  scope === 'bucket' ? configurationFields : action.startsWith('iam:') ? iamFields : undefined;

function selected(
  ctx: Context,
  request: Identified,
  { operation, parameters }: { readonly operation: OperationName; readonly parameters: Parameters },
): Selected {
  const { requestId, wire, identity, bucketName, key } = request;
  const row = describeOperation(operation);
  const recorded = recordedFields(request, row);
  const asked = { requestId, wire, action: operation, identity, bucketName, key };
  const audited = { ...asked, events: row.events, recorded };
  const found = establish(request, {
    operation,
    row,
    parameters,
    format: request.isAction ? serviceOf(row.action) : request.format,
    record: row.audited ? new Recording(ctx, audited) : undefined,
  });
  if (request.scope === 'object') assertKey(key);
  return found;
}
