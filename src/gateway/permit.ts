/** Authorizes the caller for the operation, and applies the rate limits (below). What the operation is about is read once and passed on. */

import { isGrantable } from '../auth/administer.ts';
import { assertMayKnow, authorize, isCharged, mayKnowAbsence, type Question } from '../auth/authorize.ts';
import { bucketPolicy } from '../auth/bucket-policy.ts';
import { keyIdCondition, keyIdHeader, namesKeyByAlias } from '../auth/facts.ts';
import { fail } from '../base/errors.ts';
import { toNetwork } from '../base/text/ip-address.ts';
import type { Context } from '../context.ts';
import { isUploadId } from '../domain/common/ids.ts';
import { bucketAcl } from '../domain/configurations/families.ts';
import { assertObject, lookUpVersion } from '../domain/objects/read-object.ts';
import type { Admission } from '../domain/quotas/rate-limiter.ts';
import { factsReader } from '../handlers/handler.ts';
import { asBegun } from '../handlers/object/multipart-upload.ts';
import { handlers } from '../handlers/table.ts';
import { findSession } from '../metadata/objects/uploads.ts';
import type { BucketRow, ObjectRow, UploadSession } from '../metadata/tables.ts';
import {
  describeOperation,
  type Operation,
  type OperationName,
  operationNames,
} from '../protocol/operations/operations.ts';
import { isStream } from '../protocol/render.ts';
import type { Reply } from '../protocol/reply.ts';
import type { BodyFacts } from '../request/body.ts';
import { header, parseTags, type Tags } from '../request/parameters.ts';
import {
  type Authorized,
  admit,
  admitToBucket,
  establish,
  type Identified,
  type InBucket,
  type RequestContext,
  type Selected,
} from '../request/request.ts';
import { countedBody, countReceived } from './traffic.ts';

type Asking = Selected & Partial<InBucket> & Partial<Pick<Authorized, 'body' | 'accessPoint'>>;

/**
 * @returns the version that the operation is about, where there is one
 * @throws AccessDenied, also where the version does not exist and the caller may not list: absence is a secret too
 */
export async function permit(ctx: Context, request: Asking): Promise<ObjectRow | undefined> {
  const { row, operation, identity, bucket, bucketName, key, query } = request;
  // ListBuckets of an anonymous principal is an empty list, not a refusal.
  if (identity === undefined && operation === 'ListBuckets') return undefined;
  const expectedOwner = header(request, 'expected-bucket-owner');
  if (bucket !== undefined && expectedOwner !== undefined && expectedOwner !== bucket.owner)
    throw fail('AccessDenied');
  if (row.authorization === 'each' && bucket !== undefined) assertMayAsk(request);
  if (row.authorization !== undefined) return undefined;
  const requested = { key, versionId: query.get('versionId') };
  const target =
    row.about === 'version' && bucket !== undefined ? await lookUpVersion(ctx, bucket, requested) : undefined;
  const { caller, requestTags, named, along: alongBody } = askedFacts(request);
  const isAboutVersion = row.versionAction !== undefined && requested.versionId !== undefined;
  const action = isAboutVersion ? (row.versionAction ?? row.action) : row.action;
  const writer = row.about === 'upload' ? await findInitiator(ctx, request) : undefined;
  const asker = row.about === 'parts' ? await asBegunBy(ctx, caller) : caller;
  const question: Question = { bucket, bucketName, key, target, requestTags, named, action, writer };
  const isAbsent = target === undefined || (target.marker && requested.versionId === undefined);
  if (isAbsent && row.about === 'version' && !row.audited && bucket !== undefined) {
    // A caller that may not list gets the text of the refusal that it would get if the object were there.
    if (await mayKnowAbsence(ctx, asker, { ...question, writer: undefined })) {
      // Without the payer's header the answer is 403 for every key, so that it does not reveal which keys exist.
      await isCharged(ctx, request, bucket);
      await admitToBucket(ctx, request);
      assertObject(target, requested);
    }
  }
  const further = listAlong(request, alongBody);
  /** @returns whether an ACL allowed one of the further actions */
  const authorizeFurther = async (version: ObjectRow | undefined, of = question): Promise<boolean> => {
    const isWritersAcl = identity === undefined && namesCannedAcl(request);
    const asked = { ...of, target: version, writer: identity?.owner, isWritersAcl };
    let isByAcl = false;
    for (const along of further)
      if ((await authorize(ctx, caller, { ...asked, action: along })) === 'acl') isByAcl = true;
    return isByAcl;
  };
  let isByAcl = (await authorize(ctx, asker, question)) === 'acl';
  if (further.length > 0 && (await authorizeFurther(target))) isByAcl = true;
  establish(request, { isByAcl });
  if (caller.own.has(keyIdHeader) && namesKeyByAlias(caller))
    establish(request, {
      async authorizeKey(names) {
        const withKey = { ...question, named: new Map([...(named ?? []), [keyIdCondition, names]]) };
        await authorize(ctx, asker, withKey);
        await authorizeFurther(target, withKey);
      },
    });
  if (row.about === 'version' && row.audited)
    establish(request, {
      async authorizeAgain(other) {
        await authorize(ctx, asker, { ...question, target: other });
        await authorizeFurther(other);
      },
    });
  if (row.about === 'version' && (target === undefined || (target.marker && !isAboutVersion)))
    await assertMayKnow(ctx, request, { ...question, writer: undefined });
  return target;
}

/** A copy that takes its source's tags passes over those that its request names. */
const copiesTags = (request: Selected): boolean =>
  request.operation === 'CopyObject' && header(request, 'tagging-directive') !== 'REPLACE';

interface AskedFacts extends Pick<BodyFacts, 'named' | 'along'> {
  /** The request as the policy engine sees it. */
  readonly caller: Asking;
  readonly requestTags: Tags | undefined;
}

/** Facts about the request's content: from its headers, or from its body where the operation's handler has facts in it. */
function askedFacts(request: Asking): AskedFacts {
  const { operation, row, body } = request;
  const read = factsReader(handlers[operation]);
  if (read === undefined || body === undefined) {
    const asksTags = row.also !== undefined && 'tagging' in row.also && !copiesTags(request);
    return { caller: request, requestTags: asksTags ? parseTags(header(request, 'tagging')) : undefined };
  }
  const { requestTags, headers = {}, ...others } = read(body);
  const own = new Map(request.own);
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) own.delete(name);
    else own.set(name, value);
  }
  return { ...others, caller: { ...request, own }, requestTags };
}

/** Whether the only ACL of the request is a canned one. */
function namesCannedAcl({ own }: Pick<Selected, 'own'>): boolean {
  for (const name of own.keys()) if (name.startsWith('grant-')) return false;
  return own.has('acl');
}

/**
 * Before a body is read that the decision needs.
 * @throws AccessDenied to a caller whom no body could make allowed: one of another account, or an anonymous one, where no policy and no
 *   ACL is set
 */
export function assertMayAsk({
  identity,
  bucket,
  accessPoint,
}: Pick<Asking, 'identity' | 'bucket' | 'accessPoint'>): void {
  const isStranger =
    identity === undefined ||
    (bucket !== undefined && accessPoint === undefined && identity.owner !== bucket.owner);
  if (isStranger && (bucket === undefined || !letsAnybodyIn(bucket))) throw fail('AccessDenied');
}

/** The initiator of an upload may list and abort it, though the bucket belongs to another account (public API). */
async function findInitiator(ctx: Context, request: Asking): Promise<string | undefined> {
  const { identity, bucket } = request;
  if (identity === undefined || bucket === undefined || identity.owner === bucket.owner) return undefined;
  const initiator = (await findUpload(ctx, request))?.initiator;
  return initiator === identity.owner ? initiator : undefined;
}

/** The caller with the headers of CreateMultipartUpload, where a policy may have conditions on them. */
async function asBegunBy(ctx: Context, caller: Asking): Promise<Asking> {
  const { bucket } = caller;
  const isSubject = caller.identity?.root !== true || bucketPolicy.name in (bucket?.documents ?? {});
  if (bucket === undefined || !isSubject) return caller;
  return asBegun(caller, (await findUpload(ctx, caller))?.begunAs);
}

/** The upload that the request names, if it is one to this key. */
async function findUpload(
  { metadata }: Context,
  { key, query, bucket }: Asking,
): Promise<UploadSession | undefined> {
  const uploadId = query.get('uploadId') ?? '';
  const session = isUploadId(uploadId) ? (await findSession(metadata, uploadId))?.row.session : undefined;
  const isIts = session !== undefined && session.bucketId === bucket?.id && session.key === key;
  return isIts ? session : undefined;
}

/** A header that requires further actions: by its presence, or by its value. */
interface Mark {
  readonly name: string;
  readonly relation: string | undefined;
  readonly requested: string | undefined;
  readonly actions: readonly string[];
}

function listMarks({ also = {} }: Operation): readonly Mark[] {
  return Object.entries(also).map(([mark, actions]) => {
    const [, name = '', relation, requested] = /^([\w-]+)(?:(!?=)(.+))?$/.exec(mark) ?? [];
    return { name, relation, requested, actions: typeof actions === 'string' ? [actions] : actions };
  });
}

const marks: ReadonlyMap<OperationName, readonly Mark[]> = new Map(
  operationNames.map((name) => [name, listMarks(describeOperation(name))]),
);

/** The further actions that the request's headers and its body require. */
function listAlong(
  request: Pick<Selected, 'own' | 'operation'>,
  ofBody: readonly string[] = [],
): readonly string[] {
  const asked: string[] = [];
  for (const { name, relation, requested, actions } of marks.get(request.operation) ?? []) {
    const value = header(request, name)?.toLowerCase() ?? '';
    const isAsked = relation === undefined || (value === requested) === (relation === '=');
    if (value !== '' && isAsked) asked.push(...actions);
  }
  asked.push(...ofBody);
  return asked;
}

/** A caller from outside is refused by a bucket that has neither policy nor ACL, so its body need not be parsed. */
const letsAnybodyIn = ({ documents }: BucketRow): boolean =>
  bucketPolicy.name in documents || bucketAcl.name in documents;

// Rate limits: an account, or the source of an anonymous request, takes its place once the signature is verified; a bucket once the caller
// is authorized, so that refused strangers use up nothing of its limit.

/** @throws SlowDown */
export const limitCaller = (ctx: Context, request: Identified): Promise<void> | undefined => {
  const { identity, wire } = request;
  return admit(ctx, request, () =>
    identity === undefined
      ? { kind: 'anonymous', id: toNetwork(wire.remote) }
      : { kind: 'account', id: identity.owner },
  );
};

/** In the areas, those of the operators' accounts have no limit, and neither has a stranger, who may log in there. @throws SlowDown */
export async function limitTenant(ctx: Context, request: Identified): Promise<void> {
  const { identity } = request;
  if (identity !== undefined && !(await isGrantable(ctx, identity))) await limitCaller(ctx, request);
}

/** The body of a request, which waits where a limit of bytes says so. */
export const limitedContent = (ctx: Context, request: RequestContext): typeof request.payload => {
  const { admission, payload, signal } = request;
  if (payload === undefined || admission?.hasByteLimit !== true) return payload;
  return { ...payload, content: passing(ctx, payload.content, { admission, signal }) };
};

/** The reply of a request, which ends its places under the limits at its end. */
export function endLimits(ctx: Context, request: RequestContext, reply: Reply): Reply {
  const { admission, signal, incoming, row } = request;
  if (admission === undefined) return reply;
  const { body } = reply;
  if (row?.streams !== true) admission.count(countReceived(incoming));
  if (!isStream(body) || incoming.wire.method === 'HEAD') {
    if (body instanceof Uint8Array || typeof body === 'string') admission.count(body.length);
    admission.end();
    return reply;
  }
  if (!admission.hasByteLimit) return { ...reply, body: countedBody(body, () => admission.end()) };
  const content = passing(ctx, body, { admission, signal });
  const over = async (): Promise<void> => {
    admission.end();
    // A reply may be cancelled before its first piece: `content` has not begun then, and would leave the body open.
    await body[Symbol.asyncIterator]().return?.();
  };
  return { ...reply, body: countedBody(content, over) };
}

async function* passing(
  ctx: Context,
  body: AsyncIterable<Uint8Array>,
  { admission, signal }: { readonly admission: Admission; readonly signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    await admission.pass(ctx, piece.length, signal);
    yield piece;
  }
}
