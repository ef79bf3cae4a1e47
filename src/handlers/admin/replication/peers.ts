/** The peers that versions are replicated to: other S3 services. */
import {
  deletePeer,
  listPeers,
  openAccess,
  openPeer,
  putPeer,
} from '../../../domain/deliveries/replication/peers.ts';
import { fail } from '../../../errors/refusal.ts';
import type { ReplicationPeerRow } from '../../../metadata/records/replication-peers.ts';
import {
  type JsonReader,
  jsonInteger,
  jsonObject,
  jsonOptional,
  jsonText,
  readJson,
} from '../../../protocol/formats/json.ts';
import { defined } from '../../common/parameters.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { checkPeer } from './check-peer.ts';

const text =
  (pattern: RegExp, must: string, max?: number): JsonReader<string> =>
  (value, at) => {
    const given = jsonText(max === undefined ? {} : { max })(value, at);
    if (!pattern.test(given)) throw fail('MalformedJSON', `${at} must be ${must}.`);
    return given;
  };

const origin =
  (pattern: RegExp, example: string): JsonReader<string> =>
  (value, at) => {
    const given = jsonText()(value, at);
    const url = pattern.test(given) && URL.canParse(given) ? new URL(given) : undefined;
    if (url === undefined)
      throw fail(
        'MalformedJSON',
        `${at} must be an address such as ${example}, without a path and without credentials.`,
      );
    return url.origin;
  };

const pemMax = 65_536;
const certificates = text(/^-----BEGIN CERTIFICATE-----\n/, 'PEM certificates', pemMax);
/** Slower, a peer would take no part within its own limits. */
const bandwidthMin = 65_536;
const given = jsonObject({
  endpoint: origin(/^https?:\/\/[^/?#@\s]+\/?$/, 'https://s3.example.com:9000'),
  region: jsonOptional(text(/^[a-z0-9-]{1,64}$/, '1 to 64 characters of a-z, 0-9 and -')),
  accessKey: text(/^[A-Za-z0-9._=+@-]{3,128}$/, '3 to 128 characters of A-Z, a-z, 0-9 and ._=+@-'),
  secretKey: text(/^[\x21-\x7e]{8,256}$/, '8 to 256 printable ASCII characters without spaces'),
  ca: jsonOptional(certificates),
  cert: jsonOptional(certificates),
  key: jsonOptional(
    text(/^-----BEGIN (?:[A-Z]{1,9} )?PRIVATE KEY-----\n/, 'a PEM text of a private key', pemMax),
  ),
  proxy: jsonOptional(origin(/^http:\/\/[^/?#@\s]+\/?$/, 'http://proxy.example.com:3128')),
  bandwidth: jsonOptional(jsonInteger({ min: bandwidthMin, max: 1_000_000_000_000 })),
});
/** The region of a peer that is given none. */
const regionDefault = 'us-east-1';

const checked = jsonObject({ bucket: text(/^[a-z0-9.-]{3,63}$/, 'the name of a bucket on the peer') });

/** Never the keys. */
const peerJson = ({ id, endpoint, region, ca, cert, proxy, bandwidth, changedAt }: ReplicationPeerRow) => ({
  ...{ id, endpoint, region },
  ...(ca === undefined ? {} : { ca }),
  ...(cert === undefined ? {} : { cert }),
  ...(proxy === undefined ? {} : { proxy }),
  ...(bandwidth === undefined ? {} : { bandwidth }),
  changedAt: new Date(changedAt).toISOString(),
});

const idIn = (params: ReadonlyMap<string, string>): string => params.get('id') ?? '';

export const ListReplicationPeers: AdminHandler = async (ctx) =>
  jsonReply({ peers: (await listPeers(ctx)).map(peerJson) });

export const GetReplicationPeer: AdminHandler = async (ctx, { params }) =>
  jsonReply(peerJson(await openPeer(ctx, idIn(params))));

export const PutReplicationPeer: AdminHandler = async (ctx, { params, body, record }) => {
  const id = idIn(params);
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(id))
    throw fail('InvalidArgument', 'The id of a peer has 1 to 63 characters of a-z, 0-9 and -.');
  record?.about(`replication-peer:${id}`);
  const { region = regionDefault, ca, cert, key, proxy, bandwidth, ...rest } = readJson(given, body);
  if ((cert === undefined) !== (key === undefined))
    throw fail('MalformedJSON', 'cert and key belong together: give both or neither.');
  const access = { ...rest, region, ...defined({ ca, cert, key, proxy }) };
  return jsonReply(peerJson(await putPeer(ctx, id, { access, bandwidth, record })));
};

export const DeleteReplicationPeer: AdminHandler = async (ctx, { params, record }) => {
  record?.about(`replication-peer:${idIn(params)}`);
  await deletePeer(ctx, idIn(params), record);
  return { status: 204, headers: [] };
};

/** Answers 200 with the steps, also where one of them fails. */
export const CheckReplicationPeer: AdminHandler = async (ctx, { params, body, record }) => {
  const id = idIn(params);
  record?.about(`replication-peer:${id}`);
  const { bucket } = readJson(checked, body);
  const { peers } = ctx;
  if (peers === undefined) throw fail('NotImplemented', 'This runtime opens no connections to peers.');
  const access = await openAccess(ctx, await openPeer(ctx, id));
  if (access === undefined)
    throw fail('InvalidRequest', `The master key does not open the keys of peer ${id}: PUT the peer again.`);
  const steps = await checkPeer({ ...ctx, peers }, access, bucket);
  return jsonReply({ id, bucket, ok: steps.every(({ state }) => state !== 'failed'), steps });
};
