/** What PD says of its stores (spec "Storage health details"): the first endpoint that answers in time counts. */
import type { MetadataHealth, NodeHealth } from '../../../ports/metadata-store.ts';

const endpointMs = 2_000;

interface PdStore {
  readonly store: {
    readonly id: number;
    readonly address?: string;
    readonly version?: string;
    readonly state_name?: string;
    readonly labels?: readonly { readonly key: string; readonly value: string }[];
  };
  readonly status?: { readonly leader_count?: number; readonly region_count?: number };
}

/** @param scheme of PD's HTTP interface, which listens where its gRPC does */
export async function storeHealth(
  endpoints: readonly string[],
  scheme: 'http' | 'https',
): Promise<MetadataHealth> {
  const faults: string[] = [];
  for (const endpoint of endpoints) {
    try {
      const answer = await fetch(`${scheme}://${endpoint}/pd/api/v1/stores`, {
        signal: AbortSignal.timeout(endpointMs),
      });
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      const { stores = [] } = (await answer.json()) as { readonly stores?: readonly PdStore[] };
      return { nodes: stores.map(nodeOf), warnings: imbalances(stores) };
    } catch (cause) {
      faults.push(`${endpoint} (${cause instanceof Error ? cause.message : String(cause)})`);
    }
  }
  return { nodes: [], warnings: [`pd endpoints unreachable: ${faults.join(', ')}`] };
}

function nodeOf({ store }: PdStore): NodeHealth {
  const label = (name: string): string => store.labels?.find(({ key }) => key === name)?.value ?? 'default';
  return {
    name: store.address ?? `store ${store.id}`,
    dataCenter: label('zone'),
    rack: label('rack'),
    releaseVersion: store.version ?? 'unknown',
    schemaVersion: '1',
    state: (store.state_name ?? 'Up').toUpperCase(),
  };
}

/** A live store without leaders serves nobody while its peers do. */
function imbalances(stores: readonly PdStore[]): readonly string[] {
  const live = stores.filter(({ store }) => (store.state_name ?? 'Up') === 'Up');
  const leaders = ({ status }: PdStore): number => status?.leader_count ?? 0;
  if (!live.some((each) => leaders(each) > 0)) return [];
  return live
    .filter((each) => leaders(each) === 0)
    .map(({ store }) => `raft leader imbalance: store ${store.id} has 0 leaders`);
}
