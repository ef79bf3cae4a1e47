/** The peers that versions are replicated to: other S3 services. */

import { fail } from '../../base/errors.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import { deletePeer, listPeers, openAccess, openPeer, putPeer } from '../../domain/replication/peers.ts';
import { readSite } from '../../domain/replication/send-replica.ts';
import type { PeerAccount, ReplicationPeerRow } from '../../metadata/records/replication-peers.ts';
import { findSite } from '../../metadata/site.ts';
import {
  type PeerAccess,
  type PeerReply,
  type PeerRequest,
  type PeerRequests,
  PeerSilent,
} from '../../ports/peer-requests.ts';
import { amz } from '../../protocol/dialect.ts';
import { element, optional, readXml, token, type Xml } from '../../protocol/formats/codec.ts';
import { defined } from '../../request/parameters.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, jsonReply, type Precondition } from './call.ts';

/** The region of a peer that is given none. */
const regionDefault = 'us-east-1';

/** The form was checked with the body; a port above 65535 is not seen there. */
function readOrigin(field: string, input: string): string {
  if (URL.canParse(input)) return new URL(input).origin;
  throw fail('MalformedJSON', { message: `${field} is not a valid address.`, field });
}

/** Of two entries of an account it would not be clear which one holds. */
function assertOnce(accounts: readonly PeerAccount[] = []): void {
  const names = accounts.map(({ account }) => account);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice === undefined) return;
  throw fail('InvalidArgument', { message: `accounts has ${twice} twice.`, field: 'accounts' });
}

/** Never the keys. */
const peerJson = ({
  id,
  endpoint,
  region,
  ca,
  cert,
  proxy,
  bandwidth,
  accounts,
  changedAt,
}: ReplicationPeerRow) => ({
  ...{ id, endpoint, region },
  ...(ca === undefined ? {} : { ca }),
  ...(cert === undefined ? {} : { cert }),
  ...(proxy === undefined ? {} : { proxy }),
  ...(bandwidth === undefined ? {} : { bandwidth }),
  ...(accounts === undefined ? {} : { accounts }),
  changedAt: new Date(changedAt).toISOString(),
});

const checkBy = (match: Precondition) => (row: ReplicationPeerRow | undefined) => match(row && peerJson(row));

const idIn = (params: ReadonlyMap<string, string>): string => params.get('id') ?? '';

export const ListReplicationPeers: AdminHandler<'ListReplicationPeers'> = async (ctx) =>
  jsonReply({ peers: (await listPeers(ctx)).map(peerJson) });

export const GetReplicationPeer: AdminHandler<'GetReplicationPeer'> = async (ctx, { params }) =>
  jsonReply(peerJson(await openPeer(ctx, idIn(params))));

export const PutReplicationPeer: AdminHandler<'PutReplicationPeer'> = async (
  ctx,
  { params, body, record, match },
) => {
  const id = idIn(params);
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(id))
    throw fail('InvalidArgument', {
      message: 'The id of a peer has 1 to 63 characters of a-z, 0-9 and -.',
      field: 'id',
    });
  record?.about(`replication-peer:${id}`);
  const { region = regionDefault, ca, cert, key, proxy, bandwidth, accounts: sent, ...rest } = body;
  const endpoint = readOrigin('endpoint', rest.endpoint);
  if ((cert === undefined) !== (key === undefined))
    throw fail('MalformedJSON', {
      message: 'cert and key belong together: give both or neither.',
      field: cert === undefined ? 'cert' : 'key',
    });
  const access = {
    ...rest,
    endpoint,
    region,
    ...defined({ ca, cert, key, proxy: proxy && readOrigin('proxy', proxy) }),
  };
  const accounts = sent?.map(({ account, bucketOwner, buckets, keys }) => ({
    account,
    ...defined({ bucketOwner, buckets, keys }),
  }));
  assertOnce(accounts);
  const put = { access, bandwidth, accounts, record, check: checkBy(match) };
  return jsonReply(peerJson(await putPeer(ctx, id, put)));
};

export const DeleteReplicationPeer: AdminHandler<'DeleteReplicationPeer'> = async (
  ctx,
  { params, record, match },
) => {
  record?.about(`replication-peer:${idIn(params)}`);
  await deletePeer(ctx, idIn(params), { record, check: checkBy(match) });
  return emptyReply(204);
};

/** Answers 200 with the steps, also where one of them fails. */
export const CheckReplicationPeer: AdminHandler<'CheckReplicationPeer'> = async (
  ctx,
  { params, body, record },
) => {
  const id = idIn(params);
  record?.about(`replication-peer:${id}`);
  const { bucket } = body;
  const { peers } = ctx;
  if (peers === undefined) throw fail('NotImplemented', 'This runtime opens no connections to peers.');
  const access = await openAccess(ctx, await openPeer(ctx, id));
  if (access === undefined)
    throw fail('InvalidRequest', `The master key does not open the keys of peer ${id}: PUT the peer again.`);
  const steps = await checkPeer({ ...ctx, peers }, access, bucket);
  return jsonReply({ id, bucket, ok: steps.every(({ state }) => state !== 'failed'), steps });
};

// The XML answers of a replication peer, as far as this gateway reads them; services add elements of their own.

const lax = { unknown: 'ignore' } as const;
const limits = { maxBytes: 256 * 1024 } as const;

const errorAnswer = element({ Code: token, ServerTime: optional(token) }, lax);
const versioningAnswer = element({ Status: optional(token) }, lax);
const lockAnswer = element({ ObjectLockEnabled: optional(token), Rule: optional(element({}, lax)) }, lax);

/** Undefined where the body is not that. */
function readPeerAnswer<T>(schema: Xml<T>, rootName: string, { body }: PeerReply): T | undefined {
  try {
    return readXml(schema, rootName, body, limits);
  } catch {
    return undefined;
  }
}

interface PeerError {
  readonly status: number;
  /** '' where there is no error, or none that an S3 service sends. */
  readonly code: string;
  readonly serverTime?: string;
}

function readPeerError(reply: PeerReply): PeerError {
  const { status } = reply;
  if (status < 300) return { status, code: '' };
  const { Code = '', ServerTime } = readPeerAnswer(errorAnswer, 'Error', reply) ?? {};
  // The operator's page shows it, so it may hold nothing but a name.
  const code = /^[A-Za-z0-9.]{1,64}$/.test(Code) ? Code : '';
  return { status, code, ...(ServerTime === undefined ? {} : { serverTime: ServerTime }) };
}

// Probes a replication peer step by step, with what replication needs there. The first step that fails ends the probe, because the
// later ones would fail for the same reason.

const checkSteps = [
  'reach',
  'clock',
  'sign',
  'bucket',
  'versioning',
  'lock',
  'site',
  'write',
  'remove',
] as const;
type CheckStep = (typeof checkSteps)[number];

/** `found` says what the peer answered; `advice` says what the operator can do. */
interface StepResult {
  readonly step: CheckStep;
  readonly state: 'passed' | 'failed' | 'skipped';
  readonly found?: string;
  readonly advice?: string;
}

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'> & { readonly peers: PeerRequests };
type Ask = (request: Omit<PeerRequest, 'bucket'>) => Promise<PeerReply>;

/** Signatures are valid for this long before and after the clock of the service that verifies them. */
const skewMaxMs = 15 * 60 * 1000;
const probePrefix = '.replication-check/';

class StepFailed extends Error {
  readonly advice: string;
  constructor(found: string, advice: string) {
    super(found);
    this.advice = advice;
  }
}

/** What a step leaves for those after it, and what it shows. */
class Probe {
  readonly ctx: Ctx;
  readonly ask: Ask;
  readonly bucket: string;
  readonly key: string;
  /** The answer to GET ?versioning, which five steps read. */
  first: PeerReply = { status: 0, headers: {}, body: new Uint8Array(0) };
  /** A default retention would lock the probe, so nothing is written then. */
  hasDefaultRetention = false;
  written: string | undefined;

  constructor(ctx: Ctx, access: PeerAccess, bucket: string) {
    this.ctx = ctx;
    this.bucket = bucket;
    this.key = `${probePrefix}${toHex(ctx.random.bytes(16))}`;
    this.ask = (request) => ctx.peers.ask(access, { ...request, bucket });
  }
}

/** The text of a passed step; `skip` where it does not apply. */
type Outcome = { readonly found?: string; readonly skip?: true };

const steps: Readonly<Record<CheckStep, (probe: Probe) => Promise<Outcome>>> = {
  async reach(probe) {
    probe.first = await probe.ask({ method: 'GET', query: [['versioning', '']] });
    return { found: `HTTP ${probe.first.status}` };
  },

  async clock({ ctx, first }) {
    const { code, serverTime } = readPeerError(first);
    const date = serverTime ?? first.headers['date'];
    const skewMs = date === undefined ? Number.NaN : Date.parse(date) - ctx.clock.now();
    const found = Number.isNaN(skewMs)
      ? 'the answer has no date'
      : `the peer's clock is ${formatSkew(skewMs)}`;
    if (code === 'RequestTimeTooSkewed' || Math.abs(skewMs) > skewMaxMs)
      throw new StepFailed(
        found,
        'Set the clocks of both machines by NTP: signatures are refused when they differ by 15 minutes.',
      );
    return { found };
  },

  async sign({ first }) {
    const { code, status } = readPeerError(first);
    if (code === 'InvalidAccessKeyId')
      throw new StepFailed(
        code,
        'The peer does not know the access key: PUT the peer with keys that it knows.',
      );
    if (code === 'SignatureDoesNotMatch')
      throw new StepFailed(
        code,
        'The secret key is wrong, or a proxy changes the request: PUT the peer again.',
      );
    if (code === 'AuthorizationHeaderMalformed' || code === 'IllegalLocationConstraintException')
      throw new StepFailed(code, 'The region is wrong: PUT the peer with the region of its bucket.');
    if (status >= 300 && status < 400)
      throw new StepFailed(
        `a redirect (HTTP ${status})`,
        'Redirects are not followed: PUT the peer with the endpoint and the region of the bucket.',
      );
    if (status >= 500 || status === 429)
      throw new StepFailed(
        describeAnswer(first),
        'The peer is overloaded or broken: check it there, then check again.',
      );
    if (status >= 400 && code === '')
      throw new StepFailed(
        describeAnswer(first),
        'The endpoint does not answer as an S3 service: check its port.',
      );
    return {};
  },

  async bucket({ first, bucket }) {
    const { code, status } = readPeerError(first);
    if (code === 'NoSuchBucket')
      throw new StepFailed(code, `Create the bucket ${bucket} on the peer, with versioning enabled.`);
    if (status === 403)
      throw new StepFailed(
        describeAnswer(first),
        `The keys may not read the bucket ${bucket}: allow s3:GetBucketVersioning, s3:GetBucketObjectLockConfiguration, s3:PutObject and s3:DeleteObjectVersion there.`,
      );
    if (status !== 200)
      throw new StepFailed(describeAnswer(first), 'The peer refuses GetBucketVersioning: check its log.');
    return {};
  },

  async versioning({ first, bucket }) {
    const answer = readPeerAnswer(versioningAnswer, 'VersioningConfiguration', first);
    if (answer === undefined)
      throw new StepFailed(
        'HTTP 200 without a versioning configuration',
        'The endpoint does not answer as an S3 service: check its address and port.',
      );
    const { Status = 'never enabled' } = answer;
    if (Status !== 'Enabled')
      throw new StepFailed(
        `versioning is ${Status}`,
        `Enable versioning of the bucket ${bucket} on the peer.`,
      );
    return {};
  },

  async lock(probe) {
    const reply = await probe.ask({ method: 'GET', query: [['object-lock', '']] });
    const { code, status } = readPeerError(reply);
    if (code === 'ObjectLockConfigurationNotFoundError')
      return {
        found: 'The bucket has no Object Lock: retention and legal holds cannot be replicated there.',
      };
    if (status !== 200)
      throw new StepFailed(
        describeAnswer(reply),
        'Allow s3:GetBucketObjectLockConfiguration: without it the probe could write an object that is locked.',
      );
    const answer = readPeerAnswer(lockAnswer, 'ObjectLockConfiguration', reply);
    if (answer === undefined)
      throw new StepFailed('HTTP 200 without a lock configuration', 'The peer is no complete S3 service.');
    probe.hasDefaultRetention = answer.Rule !== undefined;
    return { found: 'The bucket has Object Lock.' };
  },

  async site({ ctx, ask }) {
    // Another service refuses the question, or lists the bucket.
    const reply = await ask({ method: 'GET', query: [['replica', '']] });
    const site = reply.status === 200 ? readSite(reply) : undefined;
    if (site?.id === (await findSite(ctx)))
      throw new StepFailed(
        'The peer has the id of this installation.',
        'It is this gateway, or a copy that was restored from a backup of it: begin the other site with an empty data directory, and send what is here already by a resync.',
      );
    return {};
  },

  async write(probe) {
    if (probe.hasDefaultRetention) return { skip: true, found: lockedProbe };
    const body = new TextEncoder().encode('replication check');
    const reply = await probe.ask({ method: 'PUT', key: probe.key, body });
    if (reply.status !== 200)
      throw new StepFailed(
        describeAnswer(reply),
        'Allow s3:PutObject, and check the quota and the free space of the peer.',
      );
    probe.written = reply.headers[`${amz.headerPrefix}version-id`];
    if (probe.written === undefined)
      throw new StepFailed(
        'the write has no version id',
        `Enable versioning on the peer, and delete ${probe.key} there.`,
      );
    return {};
  },

  async remove({ ask, key, written }) {
    if (written === undefined) return { skip: true, found: lockedProbe };
    const left = `Version ${written} of ${key} is left on the peer: allow s3:DeleteObjectVersion, and delete it there.`;
    const reply = await ask({ method: 'DELETE', key, query: [['versionId', written]] }).catch((cause) => {
      if (cause instanceof PeerSilent) throw new StepFailed(cause.message, left);
      throw cause;
    });
    if (reply.status !== 204 && reply.status !== 200) throw new StepFailed(describeAnswer(reply), left);
    return {};
  },
};

const lockedProbe = 'A default retention of the bucket would lock what the probe writes.';

async function checkPeer(ctx: Ctx, access: PeerAccess, bucket: string): Promise<readonly StepResult[]> {
  const probe = new Probe(ctx, access, bucket);
  const results: StepResult[] = [];
  for (const step of checkSteps) {
    const result = await run(step, probe);
    results.push(result);
    if (result.state === 'failed') break;
  }
  const rest = checkSteps.slice(results.length);
  return [...results, ...rest.map((step) => ({ step, state: 'skipped' as const }))];
}

async function run(step: CheckStep, probe: Probe): Promise<StepResult> {
  try {
    const { found, skip } = await steps[step](probe);
    return { step, state: skip ? 'skipped' : 'passed', ...(found === undefined ? {} : { found }) };
  } catch (cause) {
    if (cause instanceof StepFailed)
      return { step, state: 'failed', found: cause.message, advice: cause.advice };
    if (cause instanceof PeerSilent)
      return { step, state: 'failed', found: cause.message, advice: silentAdvice };
    throw cause;
  }
}

const silentAdvice =
  'Check the endpoint, the network, the certificate (ca) and, for a private address, SVC_EGRESS_ALLOW.';

function describeAnswer(reply: PeerReply): string {
  const { code, status } = readPeerError(reply);
  return code === '' ? `HTTP ${status}` : `HTTP ${status} ${code}`;
}

function formatSkew(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  // A date has whole seconds.
  if (seconds <= 1) return 'equal';
  return `${seconds} seconds ${ms < 0 ? 'behind' : 'ahead'}`;
}
