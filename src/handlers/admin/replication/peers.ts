/** The peers that versions are replicated to: other S3 services. */
import {
  deletePeer,
  listPeers,
  openAccess,
  openPeer,
  putPeer,
} from '../../../domain/deliveries/replication/peers.ts';
import { fail } from '../../../errors/refusal.ts';
import type { PeerAccount, ReplicationPeerRow } from '../../../metadata/records/replication-peers.ts';
import { defined } from '../../common/parameters.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import type { Precondition } from '../request/precondition.ts';
import { checkPeer } from './check-peer.ts';

/** The region of a peer that is given none. */
const regionDefault = 'us-east-1';

/** The form was checked with the body; a port above 65535 is not seen there. */
function readOrigin(field: string, given: string): string {
  if (URL.canParse(given)) return new URL(given).origin;
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
  const accounts = sent?.map(({ account, bucketOwner, buckets }) => ({
    account,
    ...defined({ bucketOwner, buckets }),
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
  return { status: 204, headers: [] };
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
