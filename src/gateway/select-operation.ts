/**
 * The third stage: which operation the request asks for, and the parameters of an action or a form; and the caller, where the application
 * knows it.
 */

import type { Identity, Permission, Renew } from '../auth/identity.ts';
import { fail, type Refusal } from '../base/errors.ts';
import type { Context } from '../context.ts';
import type {
  ApplicationRequest,
  ApplicationSession,
  Authorize,
  AuthorizeAnswer,
  AuthorizeFacts,
} from '../ports/application.ts';
import type { ControlAsked } from '../protocol/address.ts';
import { configurationFields, iamFields } from '../protocol/admin/row.ts';
import { applicationArn, isEntityName } from '../protocol/arns.ts';
import { readXml } from '../protocol/formats/codec.ts';
import {
  bodyMaxDefault,
  describeOperation,
  type OperationName,
  type OperationRow,
  select,
  selectAction,
} from '../protocol/operations/operations.ts';
import { actionService } from '../protocol/render.ts';
import { createAccessPointRequest, putAccessPointPolicyRequest } from '../protocol/schemas/access.ts';
import {
  formBytesMax,
  isForm,
  noParameters,
  type Parameters,
  type Query,
  readParameters,
  type Wire,
} from '../protocol/wire.ts';
import { emptyBody, readBody } from '../request/body.ts';
import { assertKey, header } from '../request/parameters.ts';
import { establish, type Identified, type Selected } from '../request/request.ts';
import { acceptForm } from './accept-form.ts';
import { limitCaller } from './permit.ts';
import { Recording } from './recording.ts';

/** Reads the body where it names the operation: of an action, or of a form. */
export function selectOperation(ctx: Context, request: Identified): Promise<Selected> {
  if (request.isAction) return selectNamed(ctx, request);
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

async function selectNamed(ctx: Context, request: Identified): Promise<Selected> {
  const asked = await readAction(ctx, request);
  // The caller's key may have been made inactive, or its user changed, while the body arrived.
  const identity = (await request.renew?.()) ?? request.identity;
  return selected(ctx, establish(request, { identity }), asked);
}

/** A form brings its own signature and headers. Its signer is known only now, so the account takes its place under its limit now. */
async function selectForm(ctx: Context, request: Identified): Promise<Selected> {
  const { parameters, ...signed } = await acceptForm(ctx, request);
  const form = establish(request, signed);
  if (form.identity !== undefined) await limitCaller(ctx, form);
  return selectIdentified(ctx, form, { operation: 'PostObject', parameters });
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
    format: request.isAction ? actionService(row.action) : request.format,
    record: row.audited ? new Recording(ctx, audited) : undefined,
  });
  if (request.scope === 'object') assertKey(key);
  return found;
}

// Who the caller is where the application answers it: the hook `authorize` of `openGateway`, for requests that no access key has signed
// (docs/adr/0044-sessions-of-an-application.md).

const defaultName = 'session';

interface Asked {
  readonly operation: OperationName;
  readonly row: OperationRow;
}

interface SessionCaller {
  readonly identity?: Identity;
  readonly renew?: Renew;
  /** Why the application lets nothing pass. */
  readonly refused?: Refusal;
}

/** Areas, IAM and STS need an access key: a session of the application could otherwise create itself a lasting one. */
const isForApplication = (ctx: Pick<Context, 'application'>, request: Identified): boolean =>
  ctx.application?.authorize !== undefined &&
  request.identity === undefined &&
  !request.isAction &&
  request.incoming.wire.method !== 'OPTIONS';

/** @throws Error where the hook throws, or answers what is no answer */
async function findApplicationSession(
  ctx: Pick<Context, 'application' | 'credentials'>,
  request: Identified,
  asked: Asked,
): Promise<SessionCaller> {
  const authorize = ctx.application?.authorize;
  if (authorize === undefined) return {};
  const { query, bucketName, key } = request;
  const first: Permission = {
    action:
      asked.row.versionAction !== undefined && query.get('versionId') !== undefined
        ? asked.row.versionAction
        : asked.row.action,
    bucketName,
    key,
    prefix: query.get('prefix'),
  };
  const find = async (): Promise<SessionCaller> => {
    const permits = openAnswers(authorize, request, asked.operation);
    const answer = await permits(first);
    if (answer === 'anonymous') return {};
    if (answer === undefined) return { refused: fail('AccessDenied') };
    if ('refusal' in answer) return { refused: fail('AccessDenied', answer.refusal) };
    return { identity: await toIdentity(ctx, answer, permits), renew };
  };
  // The session may have ended while a body arrived.
  const renew = async (): Promise<Identity> => {
    const { identity, refused } = await find();
    // Also where it is an anonymous request by now: what the session began is not finished without it.
    if (identity === undefined) throw refused ?? fail('AccessDenied');
    return identity;
  };
  return find();
}

/** The answers of the hook to one request; each permission is asked once. */
function openAnswers(authorize: Authorize, request: Identified, operation: string) {
  const { wire, signal } = request;
  const described: ApplicationRequest = {
    method: wire.method,
    target: request.incoming.wire.target,
    headers: toHeaders(request.incoming.wire),
    signal,
  };
  const answers = new Map<string, Promise<AuthorizeAnswer>>();
  return ({ action, bucketName, key, prefix }: Permission): Promise<AuthorizeAnswer> => {
    const place = JSON.stringify([action, bucketName, key, prefix]);
    const known = answers.get(place);
    if (known !== undefined) return known;
    const facts = {
      operation,
      action,
      bucket: bucketName,
      key,
      remote: wire.remote === '' ? undefined : wire.remote,
      ...(prefix === undefined || prefix === '' || key !== '' ? {} : { prefix }),
    };
    const answer = ask(authorize, described, facts);
    answers.set(place, answer);
    return answer;
  };
}

async function ask(
  authorize: Authorize,
  request: ApplicationRequest,
  facts: AuthorizeFacts,
): Promise<AuthorizeAnswer> {
  let answer: AuthorizeAnswer;
  try {
    answer = await authorize(request, facts);
  } catch (cause) {
    throw new Error('the hook authorize of the application threw', { cause });
  }
  if (isAnswer(answer)) return answer;
  throw new Error(
    'the hook authorize of the application answered neither { owner, name? }, { refusal }, "anonymous" nor undefined',
  );
}

/** Applications may be written in JavaScript: `true`, for example, names no account. */
const isAnswer = (answer: unknown): boolean =>
  answer === undefined ||
  answer === 'anonymous' ||
  (typeof answer === 'object' &&
    answer !== null &&
    (('refusal' in answer && typeof answer.refusal === 'string') ||
      ('owner' in answer && typeof answer.owner === 'string')));

function toHeaders({ headers }: Wire): Headers {
  const described = new Headers();
  for (const name of headers.names()) for (const value of headers.all(name)) described.append(name, value);
  return described;
}

/** @throws AccountProblem where the account is suspended, Error where there is none */
async function toIdentity(
  { credentials }: Pick<Context, 'credentials'>,
  { owner, name = defaultName }: ApplicationSession,
  answer: ReturnType<typeof openAnswers>,
): Promise<Identity> {
  const account = await credentials.account({ owner });
  if (account === undefined)
    throw new Error(`the hook authorize of the application names the account ${owner}, which does not exist`);
  if (account.status === 'Suspended') throw fail('AccountProblem');
  if (!isEntityName(name))
    throw new Error(
      `the hook authorize of the application names the session ${JSON.stringify(name)}: 1 to 64 letters, digits and _+=,.@- are right`,
    );
  const permits = async (permission: Permission): Promise<boolean> => {
    const found = await answer(permission);
    return (
      typeof found === 'object' &&
      'owner' in found &&
      found.owner === owner &&
      (found.name ?? defaultName) === name
    );
  };
  return {
    // No access key has a slash, so no key signs with it.
    accessKey: `application/${name}`,
    owner,
    displayName: account.displayName,
    root: false,
    operator: false,
    caller: {
      kind: 'user',
      account: owner,
      arn: applicationArn(owner, { name }),
      userid: `application:${name}`,
    },
    permits,
  };
}

// Reads the operation and parameters of an action: in the form of IAM and STS, or of S3 Control.

type Ctx = Pick<Context, 'hasher' | 'bodyMemory'>;

interface AskedAction {
  readonly operation: OperationName;
  readonly parameters: Parameters;
}

/**
 * @throws MissingAuthenticationToken: all actions need a signature, so the body of an anonymous request is not even read;
 *   InvalidRequest for a body that is no form, or that the signature does not cover; MissingRequestBodyError, MalformedXML
 */
async function readAction(ctx: Ctx, request: Identified): Promise<AskedAction> {
  const { control, wire, identity } = request;
  if (identity === undefined) throw fail('MissingAuthenticationToken');
  if (control !== undefined) {
    const { operation } = control;
    return { operation, parameters: await readControl(ctx, request, control) };
  }
  const parameters = await readForm(ctx, request);
  return { operation: selectAction(wire.method, parameters.get('Action')), parameters };
}

/** The parameters of an action query, from the URL and from the form in its body. */
async function readForm(ctx: Ctx, request: Identified): Promise<Parameters> {
  const { wire, query, payload, incoming } = request;
  const hasBody = incoming.body !== undefined;
  const body =
    (await readBody(ctx, request, { hasBody, row: { bodyMax: formBytesMax }, countedIn: request })) ??
    emptyBody;
  if (body.length > 0 && !isForm(wire))
    throw fail('InvalidRequest', 'The parameters of an action come in the URL, or as a form in the body.');
  if (body.length > 0 && payload.sha256 === undefined)
    throw fail('InvalidRequest', 'The body of an action must be covered by the signature of the request.');
  return readParameters(query, body);
}

type Said = readonly (readonly [string, string])[];

const readers: { readonly [O in ControlAsked['operation']]?: (body: Uint8Array) => Said } = {
  CreateAccessPoint: (body) => {
    const limits = { maxBytes: bodyMaxDefault };
    const asked = readXml(createAccessPointRequest, 'CreateAccessPointRequest', body, limits);
    const { Bucket, BucketAccountId, VpcConfiguration, PublicAccessBlockConfiguration = {} } = asked;
    if (VpcConfiguration !== undefined)
      throw fail('NotImplemented', 'There are no VPCs that an access point could be for.');
    return [
      ['Bucket', Bucket],
      ...(BucketAccountId === undefined ? [] : [['BucketAccountId', BucketAccountId] as const]),
      ...Object.entries(PublicAccessBlockConfiguration).map(
        ([name, value]) => [`PublicAccessBlockConfiguration.${name}`, String(value)] as const,
      ),
    ];
  },
  PutAccessPointPolicy: (body) => {
    const limits = { maxBytes: bodyMaxDefault };
    const { Policy } = readXml(putAccessPointPolicyRequest, 'PutAccessPointPolicyRequest', body, limits);
    return [['Policy', Policy]];
  },
};

/** The parameters in the path of S3 Control, and those in its XML body under the action's names. */
async function readControl(
  ctx: Ctx,
  request: Identified,
  { operation, parameters }: ControlAsked,
): Promise<Parameters> {
  const hasBody = request.incoming.body !== undefined;
  const body = (await readBody(ctx, request, { hasBody, row: {}, countedIn: request })) ?? emptyBody;
  const read = readers[operation];
  if (read === undefined) return parameters;
  return new Map([...parameters, ...read(body)]);
}
