/** Why a version did not arrive: what operators read and count, and whether another attempt may help. */
import { Refusal } from '../../../errors/refusal.ts';
import { StoreRefused, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { PeerSilent } from '../../../ports/peer-requests.ts';
import { NotAllowed } from './authorize-delivery.ts';
import { isAboutCaller, PeerRefused, UnexpectedAnswer } from './send-content.ts';
import { KeyChanged, Superseded } from './send-to-service.ts';

/** The version cannot be replicated, now or later. */
export class Unreplicable extends Error {}

/** The destination takes nothing now. */
export class DestinationAway extends Error {
  readonly why: 'no-peer' | 'sealed-keys' | 'no-versioning';
  constructor(why: DestinationAway['why'], message: string) {
    super(message);
    this.why = why;
  }
}

/** Answers about one version, which will not change. Others are about the bucket, the keys or the service, and are tried again. */
const finalStatus = new Set([400, 405, 409, 411, 412, 413, 414, 431]);
const passingCodes = new Set(['InvalidBucketState', 'OperationAborted', 'SlowDown', 'RequestTimeTooSkewed']);

export interface Explained {
  readonly message: string;
  /** The cause as metrics count it. */
  readonly why: string;
  readonly isFinal?: boolean;
  /** This site cannot read the version, or the destination refuses it, and may take others. Absent: the destination takes nothing. */
  readonly faultOf?: 'source' | 'version';
}

const checkAdvice = 'POST /admin/v1/replication/peers/{id}/check says which step fails';

/** The destination did not describe itself, which has nothing to do with a version. */
export class DescriptionFailed extends Error {
  constructor(cause: unknown) {
    super('the destination does not describe itself', { cause });
  }
}

/** @throws the cause where metadata is away: nothing works, and the supervisor starts the worker again */
export function explainFailure(cause: unknown): Explained {
  if (cause instanceof Unreplicable) return { message: cause.message, why: 'client-key', isFinal: true };
  if (cause instanceof KeyChanged) return { message: cause.message, why: 'key-changed', isFinal: true };
  if (cause instanceof NotAllowed) return { message: cause.message, why: 'not-allowed', isFinal: true };
  if (cause instanceof Superseded) return { message: cause.message, why: 'superseded', isFinal: true };
  if (cause instanceof PeerSilent) return { message: `${cause.message}: ${checkAdvice}`, why: 'no-answer' };
  if (cause instanceof DestinationAway) return { message: cause.message, why: cause.why };
  if (cause instanceof UnexpectedAnswer) return { message: cause.message, why: 'not-s3' };
  if (cause instanceof DescriptionFailed) {
    const { faultOf: _, isFinal: __, ...explained } = explainFailure(cause.cause);
    return explained;
  }
  if (cause instanceof PeerRefused) return explainRefusal(cause);
  if (cause instanceof StoreUnavailable || cause instanceof StoreRefused) throw cause;
  // A key provider that refuses, an archived content, a cluster that is away, damaged bytes.
  const message =
    cause instanceof Refusal ? cause.code : cause instanceof Error ? cause.message : String(cause);
  return { message: `the source: ${message}`, why: 'source', faultOf: 'source' };
}

/** By code: the cause for metrics, and what the operator can do. */
const refusals: Readonly<Record<string, readonly [why: string, advice: string]>> = {
  NoSuchBucket: ['no-bucket', 'create the bucket at the peer'],
  InvalidBucketState: ['no-versioning', 'enable versioning of the bucket at the peer'],
  AccessDenied: [
    'denied',
    'allow s3:ReplicateObject, s3:ReplicateDelete, s3:ReplicateTags and s3:PutObject to the user of the peer, for ACLs and locks also their own actions, and see that no policy denies them',
  ],
  QuotaExceeded: ['quota', 'make room in the bucket at the peer, or raise its quota or that of its account'],
  InvalidAccessKeyId: ['credentials', 'PUT the peer again with a key that it knows'],
  SignatureDoesNotMatch: [
    'credentials',
    'PUT the peer again with the right secret key; a bucket with a signing key of its own needs a peer with that key',
  ],
  AuthorizationHeaderMalformed: ['credentials', 'PUT the peer again with the region that it expects'],
  RequestTimeTooSkewed: ['clock', 'correct the clock of this machine or of the peer'],
};

/** Codes that no version causes. */
const isAboutDestination = (code: string): boolean =>
  isAboutCaller(code) ||
  ['no-bucket', 'no-versioning', 'credentials', 'clock'].includes(refusals[code]?.[0] ?? '');

function explainRefusal(cause: PeerRefused): Explained {
  const { code, status } = cause;
  const mayPass = passingCodes.has(code) || isAboutCaller(code);
  const isFinal = finalStatus.has(status) && !mayPass;
  const [why, advice = cause.said] = refusals[code] ?? [status >= 500 ? 'unavailable' : 'refused'];
  const message = advice === '' ? cause.message : `${cause.message}: ${advice}`;
  return { message, why, isFinal, ...(isAboutDestination(code) ? {} : { faultOf: 'version' }) };
}
