/**
 * Among which replicas commits are decided. `local`: a quorum of one data center, which must be the same for every gateway,
 * because two commits that are decided in two data centers do not exclude each other. `global`: a quorum of all replicas.
 *
 * The first gateway records the scope in the keyspace; every later one takes what is recorded, or refuses to start.
 */
import { StoreRefused } from '../../../ports/metadata-store.ts';
import { type SerialScope, type Session, UnknownOutcome } from './session.ts';

/** `auto`: the recorded scope; else `local` where the keyspace is in one data center, and `global` where it is in several. */
const serialSettings = ['auto', 'local', 'global'] as const;
export type SerialSetting = (typeof serialSettings)[number];

interface Scoped {
  readonly keyspace: string;
  readonly serial: SerialSetting;
  /** The table that records it, with a row named `serial`. */
  readonly table: string;
}

const decideTriesMax = 5;

/** @throws StoreRefused where the setting contradicts what the gateways of this keyspace go by */
export async function settleScope(session: Session, scoped: Scoped): Promise<SerialScope> {
  const { keyspace, serial } = scoped;
  const nodes = await session.nodes();
  const replicas = replicasIn(await fetchReplication(session, keyspace), nodes);
  const holdsReplicas = replicas.has(session.localDc);
  // Read in the local data center, so that a gateway starts while another one is unavailable.
  const near = holdsReplicas ? 'local' : 'global';
  const remedy = `ALTER KEYSPACE ${keyspace} WITH replication =`;
  const asked = { nodes, localDc: session.localDc, keyspace, remedy };
  assertReachable(replicas, { ...asked, scope: near });
  const known = await recorded(session, { ...scoped, scope: near });
  const isSpread = replicas.size > 1 || replicas.has(everywhere);
  const scope = serial === 'auto' ? (scopeIn(known) ?? (isSpread ? 'global' : 'local')) : serial;
  if (scope === 'local' && !holdsReplicas)
    throw new StoreRefused(
      `data center ${session.localDc} holds no replicas of keyspace ${keyspace} (replicas by data center: ${formatReplicas(replicas)}): set SVC_WIDECOL_LOCAL_DC, or replicate by NetworkTopologyStrategy`,
    );
  assertReachable(replicas, { ...asked, scope });
  const mark = scope === 'local' ? `local ${session.localDc}` : 'global';
  const stands = known ?? (await record(session, { ...scoped, mark }));
  if (stands !== mark)
    throw new StoreRefused(
      `the gateways of keyspace ${keyspace} decide commits in scope "${stands}", this one would in "${mark}": they would not exclude each other. Set SVC_WIDECOL_SERIAL and SVC_WIDECOL_LOCAL_DC as theirs are, or change the scope as docs/wide-column.md says`,
    );
  return scope;
}

const scopeIn = (mark: string | undefined): SerialScope | undefined =>
  mark === undefined ? undefined : mark === 'global' ? 'global' : 'local';

/** Without a record the scope is global. */
async function recorded(
  session: Session,
  { table, scope }: Scoped & { readonly scope: SerialScope },
): Promise<string | undefined> {
  const query = `SELECT owner FROM ${table} WHERE id = 'serial'`;
  const [row] = await session.read(query, [], { scope });
  return (row?.['owner'] as string | null | undefined) ?? undefined;
}

/** @returns what is recorded, which may be another gateway's */
async function record(
  session: Session,
  { table, mark }: Scoped & { readonly mark: string },
): Promise<string> {
  const query = `UPDATE ${table} SET owner = ? WHERE id = 'serial' IF owner = null`;
  const read = `SELECT owner FROM ${table} WHERE id = 'serial'`;
  for (let tries = 0; tries < decideTriesMax; tries += 1) {
    await session.decide([{ query, params: [mark] }], { scope: 'global' }).catch((cause: unknown) => {
      if (!(cause instanceof UnknownOutcome)) throw cause;
    });
    const [row] = await session.read(read, [], { serial: true, scope: 'global' });
    if (typeof row?.['owner'] === 'string') return row['owner'];
  }
  throw new UnknownOutcome('the cluster does not say in which scope commits are decided');
}

type Replication = Readonly<Record<string, unknown>>;

async function fetchReplication(session: Session, keyspace: string): Promise<Replication> {
  const query = `SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '${keyspace}'`;
  const [row] = await session.run(query);
  return (row?.['replication'] as Replication | undefined) ?? {};
}

/** Stands for replicas that are spread over the ring regardless of data centers. */
const everywhere = '*';

/** How many replicas are in each data center; `nodes` has the number of nodes of each. */
export function replicasIn(
  replication: Replication,
  nodes: ReadonlyMap<string, number>,
): ReadonlyMap<string, number> {
  const { class: strategy, replication_factor: factor, ...byCenter } = replication;
  const count = (value: unknown): number => Number.parseInt(String(value), 10);
  // It names no data center, and a node that joins may be in another one.
  if (!String(strategy).endsWith('NetworkTopologyStrategy')) return new Map([[everywhere, count(factor)]]);
  const named = Object.entries(byCenter).map(([center, value]) => [center, count(value)] as const);
  // As CREATE KEYSPACE takes it: this many in every data center that exists and is not named.
  const others =
    factor === undefined ? [] : [...nodes.keys()].map((center) => [center, count(factor)] as const);
  return new Map([...others, ...named].filter(([, replicas]) => replicas > 0));
}

/** A map of CQL, as `SVC_WIDECOL_REPLICATION` holds it. */
export const readReplication = (text: string): Replication =>
  Object.fromEntries(
    [...text.matchAll(/'([^']*)'\s*:\s*'?([^',}]*)'?/g)].map(([, key, value]) => [key, value]),
  );

const formatReplicas = (replicas: ReadonlyMap<string, number>): string =>
  [...replicas].map(([center, count]) => `${center} ${count}`).join(', ');

const quorumSize = (replicas: number): number => Math.floor(replicas / 2) + 1;

interface Reached {
  /** The number of nodes in each data center. */
  readonly nodes: ReadonlyMap<string, number>;
  readonly localDc: string;
  readonly keyspace: string;
  readonly scope: SerialScope;
  /** What the operator can do. */
  readonly remedy: string;
}

/** May be temporary: a node that has just started does not know the others yet. */
export class TooFewNodes extends StoreRefused {}

/** @throws TooFewNodes where there are too few nodes for a quorum, so that nothing could ever be written */
export function assertReachable(replicas: ReadonlyMap<string, number>, reached: Reached): void {
  const { nodes, localDc, keyspace, scope, remedy } = reached;
  const counted = [...replicas].filter(([center]) => scope === 'global' || center === localDc);
  const nodesIn = (center: string): number =>
    center === everywhere ? sum([...nodes.values()]) : (nodes.get(center) ?? 0);
  const quorum = quorumSize(sum(counted.map(([, count]) => count)));
  if (sum(counted.map(([center, count]) => Math.min(count, nodesIn(center)))) >= quorum) return;
  const said = counted.map(([center, count]) => `${count} in ${center}, which has ${nodesIn(center)} nodes`);
  const example = [...nodes].map(([center, count]) => `'${center}': ${Math.min(count, 3)}`).join(', ');
  throw new TooFewNodes(
    `keyspace ${keyspace} has too few nodes for a quorum: replicas ${said.join('; ')}; ${quorum} are needed for every write. Add nodes, or use ${remedy} {'class': 'NetworkTopologyStrategy', ${example}}`,
  );
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
