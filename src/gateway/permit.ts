/** The fourth step: may the caller do this (design §7.10)? What the operation is about is read once, and handed on. */
import { assertMayKnow, authorize, mayKnowAbsence } from '../auth/authorize.ts';
import { bucketPolicy } from '../auth/bucket-policy.ts';
import { isCharged } from '../auth/requester-pays.ts';
import type { Context } from '../context.ts';
import { bucketAcl } from '../domain/families.ts';
import { assertObject, lookUpVersion } from '../domain/read-object.ts';
import { isUploadId } from '../domain/version-ids.ts';
import { fail } from '../errors/refusal.ts';
import { type Call, header } from '../handlers/call.ts';
import { asBegun } from '../handlers/multipart/begun-as.ts';
import { type HeadAhead, readAheadIn } from '../metadata/objects.ts';
import type { BucketRow, ObjectRow, UploadSession } from '../metadata/tables.ts';
import { findSession } from '../metadata/uploads.ts';
import {
  describeOperation,
  type Operation,
  type OperationName,
  operationNames,
} from '../protocol/operations.ts';
import { askedBy } from './asked.ts';

type Asking = Omit<Call, 'body'>;

interface Permitted {
  readonly row: ReturnType<typeof describeOperation>;
  readonly bucket: BucketRow | undefined;
  /** Where it was read to be judged by. */
  readonly body: Uint8Array | undefined;
  readonly ahead: HeadAhead | undefined;
}

/**
 * @returns the version that the operation is about, where there is one
 * @throws AccessDenied, also where the version does not exist and the caller may not list: absence is a secret too
 */
export async function permit(
  ctx: Context,
  call: Asking,
  { row, bucket, body, ahead }: Permitted,
): Promise<ObjectRow | undefined> {
  const { identity, bucketName, key, query } = call;
  // ListBuckets of an anonymous principal is an empty list, not a refusal (spec "Authentication" 5).
  if (identity === undefined && call.operation === 'ListBuckets') return undefined;
  const expectedOwner = header(call, 'expected-bucket-owner');
  if (bucket !== undefined && expectedOwner !== undefined && expectedOwner !== bucket.owner)
    throw fail('AccessDenied');
  if (row.judges === 'each' && bucket !== undefined) assertMayAsk(call, bucket);
  if (row.judges !== undefined) return undefined;
  const versionId = row.versionAction === undefined ? undefined : query.get('versionId');
  const target =
    row.about === 'version' && bucket !== undefined
      ? ((await readAheadIn(ahead, bucket))?.live?.row ??
        (await lookUpVersion(ctx, bucket, { key, versionId: query.get('versionId') })))
      : undefined;
  const { caller, requestTags, named, along: alongBody = [] } = askedBy(call, row, body);
  const about = { bucket, bucketName, key, target, requestTags, named };
  const action = versionId === undefined ? row.action : (row.versionAction ?? row.action);
  const writer = row.about === 'upload' ? await initiatorOf(ctx, call, bucket) : undefined;
  const asker = row.about === 'parts' ? await asBegunBy(ctx, caller, bucket) : caller;
  const wanted = { key, versionId: query.get('versionId') };
  const isAbsent = target === undefined || (target.marker && wanted.versionId === undefined);
  if (isAbsent && readsVersion.has(call.operation) && bucket !== undefined) {
    // A caller that may not list gets the text of the refusal that it would get if the object were there.
    if (await mayKnowAbsence(ctx, asker, { ...about, action })) {
      // Without the header of a payer the answer is 403 for every key, so that it does not tell which exist.
      const charging = isCharged(ctx, call, bucket);
      if (charging !== false) await charging;
      assertObject(target, wanted);
    }
  }
  const judging = authorize(ctx, asker, { ...about, action, writer });
  if (judging !== undefined) await judging;
  const isWritersAcl = identity === undefined && namesCannedAcl(call);
  for (const along of [...alongOf(call), ...alongBody])
    await authorize(ctx, caller, { ...about, action: along, writer: identity?.owner, isWritersAcl });
  if (row.about === 'version' && (target === undefined || (target.marker && versionId === undefined)))
    await assertMayKnow(ctx, call, about);
  return target;
}

/** Whether the only ACL that the request brings is a canned one. */
function namesCannedAcl({ own }: Pick<Call, 'own'>): boolean {
  for (const name of own.keys()) if (name.startsWith('grant-')) return false;
  return own.has('acl');
}

/** Operations that read a version or what is kept about it, and change nothing. */
const readsVersion: ReadonlySet<OperationName> = new Set<OperationName>([
  'GetObject',
  'HeadObject',
  'GetObjectAttributes',
  'GetObjectTagging',
  'GetObjectAcl',
  'GetObjectRetention',
  'GetObjectLegalHold',
]);

/**
 * Before a body is read that the decision needs.
 * @throws AccessDenied to a caller whom no body could let in: an anonymous one, where no policy and no ACL is set
 */
export function assertMayAsk({ identity }: Pick<Asking, 'identity'>, bucket: BucketRow | undefined): void {
  if (identity === undefined && (bucket === undefined || !letsAnybodyIn(bucket))) throw fail('AccessDenied');
}

/** Whoever began an upload may look at it and end it, though the bucket be another's (public API). */
async function initiatorOf(
  ctx: Context,
  call: Asking,
  bucket: BucketRow | undefined,
): Promise<string | undefined> {
  const { identity } = call;
  if (identity === undefined || bucket === undefined || identity.owner === bucket.owner) return undefined;
  const initiator = (await uploadOf(ctx, call, bucket))?.initiator;
  return initiator === identity.owner ? initiator : undefined;
}

/** The caller with the headers that the upload was begun with, where there may be a policy that asks for them. */
async function asBegunBy<C extends Asking>(
  ctx: Context,
  caller: C,
  bucket: BucketRow | undefined,
): Promise<C> {
  const isJudged = caller.identity?.root !== true || bucketPolicy.name in (bucket?.documents ?? {});
  if (bucket === undefined || !isJudged) return caller;
  return asBegun(caller, (await uploadOf(ctx, caller, bucket))?.begunAs);
}

/** The upload that the request names, if it is one to this key. */
async function uploadOf(
  { metadata }: Context,
  { key, query }: Asking,
  bucket: BucketRow,
): Promise<UploadSession | undefined> {
  const uploadId = query.get('uploadId') ?? '';
  const session = isUploadId(uploadId) ? (await findSession(metadata, uploadId))?.row.session : undefined;
  return session?.bucketId === bucket.id && session.key === key ? session : undefined;
}

/** A header that asks for actions beside the operation's own: by being there, or by what it says. */
interface Mark {
  readonly name: string;
  readonly relation: string | undefined;
  readonly wanted: string | undefined;
  readonly actions: readonly string[];
}

function marksOf({ also = {} }: Operation): readonly Mark[] {
  return Object.entries(also).map(([mark, actions]) => {
    const [, name = '', relation, wanted] = /^([\w-]+)(?:(!?=)(.+))?$/.exec(mark) ?? [];
    return { name, relation, wanted, actions: typeof actions === 'string' ? [actions] : actions };
  });
}

const marks: ReadonlyMap<OperationName, readonly Mark[]> = new Map(
  operationNames.map((name) => [name, marksOf(describeOperation(name))]),
);

/** The actions that the request's headers ask for beside its own. */
function alongOf(call: Pick<Call, 'own' | 'operation'>): readonly string[] {
  const asked: string[] = [];
  for (const { name, relation, wanted, actions } of marks.get(call.operation) ?? []) {
    const value = header(call, name)?.toLowerCase() ?? '';
    const isAsked = relation === undefined || (value === wanted) === (relation === '=');
    if (value !== '' && isAsked) asked.push(...actions);
  }
  return asked;
}

/** An anonymous caller is refused by a bucket that has neither policy nor ACL, so its body need not be parsed. */
const letsAnybodyIn = ({ documents }: BucketRow): boolean =>
  bucketPolicy.name in documents || bucketAcl.name in documents;
