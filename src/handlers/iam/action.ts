/**
 * The common part of every action of IAM, STS and access points: parameters are parsed by a schema, the caller is authorized for the
 * resource that they name, and the result is written as `<GetUserResponse><GetUserResult>…`.
 */
import { denialText, explainRefusal, type Question, verdictOn } from '../../auth/authorize.ts';
import { callerOf, principalOf } from '../../auth/principal.ts';
import type { Awaitable } from '../../base/awaitable.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { element, token, writeXml, type Xml } from '../../protocol/formats/codec.ts';
import type { iamOperations } from '../../protocol/operations/iam.ts';
import { type accessPointOperations, describeOperation } from '../../protocol/operations/operations.ts';
import {
  type Input,
  optional,
  type Parameter,
  readFields,
  text,
} from '../../protocol/operations/parameters.ts';
import { actionNamespaces, actionService } from '../../protocol/render.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Authorized } from '../../request/request.ts';
import type { ActionRequest } from './fields.ts';
import { boundaryKey, factsAt } from './resources.ts';

export type ActionName = keyof typeof iamOperations | keyof typeof accessPointOperations;
type NamedFacts = NonNullable<Question['named']>;
type Fields = Readonly<Record<string, Parameter<unknown>>>;

export interface Asking {
  readonly ctx: Context;
  readonly request: ActionRequest;
}

interface Action<F extends object, R> {
  /** The ARN that the caller must be allowed the action on, or that everybody may. */
  readonly resource:
    | 'anybody'
    | ((ctx: Context, request: ActionRequest, input: Input<F>) => Awaitable<string>);
  /** The ARN that it has afterwards, where that changes: the caller must be allowed the action on this one too. */
  readonly becomes?: (ctx: Context, request: ActionRequest, input: Input<F>) => Promise<string>;
  /** The parameters as condition keys. */
  readonly facts?: (input: Input<F>, asking: Asking) => Awaitable<NamedFacts>;
  /** Absent where the reply has no result. */
  readonly result?: Xml<R>;
  /** The status of a reply without a body, which only S3 Control has. */
  readonly status?: 200 | 204;
  readonly run: (
    ctx: Context & Partial<Pick<Authorized, 'record'>>,
    request: ActionRequest,
    input: Input<F>,
  ) => Awaitable<R>;
}

const responseMetadata = element({ RequestId: token });
/** The version of the API that clients were made for. */
const versions = { iam: '2010-05-08', sts: '2011-06-15', s3: '2018-08-20' } as const;
const common = { Action: optional(text({ max: 128 })), Version: optional(text({ max: 32 })) };

export function action<F extends object, R = void>(
  name: ActionName,
  parameters: F,
  { resource, becomes, facts, result, status = 200, run }: Action<F, R>,
) {
  // The cast: `Given` is empty where a field is no parameter; a constraint would prevent inference.
  const fields = parameters as Fields;
  const { action: permitted } = describeOperation(name);
  const service = actionService(permitted);
  const namespace = actionNamespaces[service];
  const root = `${name}Response`;
  const response =
    result === undefined
      ? element({ ResponseMetadata: responseMetadata })
      : element({ [`${name}Result`]: result, ResponseMetadata: responseMetadata });
  return async (ctx: Context, request: Authorized): Promise<Reply> => {
    const { identity, requestId } = request;
    if (identity === undefined) throw fail('MissingAuthenticationToken');
    const known: ActionRequest = { ...request, identity };
    const { Action, Version, ...input } = readFields({ ...common, ...fields }, request.parameters);
    if (Version !== undefined && Version !== versions[service])
      throw fail('InvalidAction', `Could not find operation ${name} for version ${Version}.`);
    // The cast: what is left are the fields of `parameters`.
    const asked = input as Input<F>;
    if (service === 'iam') refuseBareSession(known);
    let about = '*';
    if (resource !== 'anybody') {
      const arn = await resource(ctx, known, asked);
      about = arn;
      request.record?.about(arn);
      const named = new Map([
        ...(await factsAt(ctx, known, arn)),
        ...boundaryAsked(asked),
        ...((await facts?.(asked, { ctx, request: known })) ?? []),
      ]);
      await permit(ctx, known, { resource: arn, named });
      if (becomes !== undefined)
        await permit(ctx, known, { resource: await becomes(ctx, known, asked), named });
    }
    const { record } = request;
    const running = async () => run(record === undefined ? ctx : { ...ctx, record }, known, asked);
    const found = await running().catch((cause: unknown) => {
      throw explainRefusal(cause, { identity, owner: identity.owner, action: permitted, resource: about });
    });
    const headers = [['Content-Type', 'text/xml']] as const;
    // In S3 Control no element surrounds the result.
    if (Action === undefined) {
      if (result === undefined) return { status, headers: [] };
      return { status, headers, body: writeXml(result, `${name}Result`, found, { namespace }) };
    }
    const value = { [`${name}Result`]: found, ResponseMetadata: { RequestId: requestId } };
    return { status: 200, headers, body: writeXml(response as Xml<object>, root, value, { namespace }) };
  };
}

/** No other action has a parameter of this name. */
const boundaryAsked = ({ PermissionsBoundary: arn }: { readonly PermissionsBoundary?: unknown }) =>
  typeof arn === 'string' ? [[boundaryKey, arn] as const] : [];

/** A session of a user or root may change permissions only after a code of an MFA device was verified (public API). */
function refuseBareSession({ identity }: ActionRequest): void {
  const { session } = identity;
  if (session === undefined || session.mfaAt !== undefined || callerOf(identity).kind === 'session') return;
  throw fail('AccessDenied', 'Cannot request IAM with session credentials that were obtained without MFA.');
}

/** @throws AccessDenied, which names the caller: its signature is valid, so it learns nothing new */
async function permit(
  ctx: Context,
  request: ActionRequest,
  { resource, named }: { readonly resource: string; readonly named: NamedFacts },
): Promise<void> {
  const { action } = describeOperation(request.operation);
  const verdict = await verdictOn(ctx, request, { action, bucketName: '', key: '', resource, named });
  if (verdict.allowed) return;
  throw fail(
    'AccessDenied',
    denialText({ principal: principalOf(request.identity), action, resource, verdict }),
  );
}
