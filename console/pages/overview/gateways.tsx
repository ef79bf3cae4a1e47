/** The gateways of the installation by their heartbeats: versions, processes, load, and the workers that each leads. */
import type { Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { formatNumber } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Empty, Reading } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { formatDuration } from '../../ui/values.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

type Gateway = Answer<'GetStatus'>['gateways'][number];

const columns: readonly Column<Gateway>[] = [
  { id: 'host', head: w.host, cell: ({ host }) => <bdi>{host}</bdi> },
  { id: 'address', head: w.address, cell: ({ address }) => <bdi>{address}</bdi>, isMinor: true },
  {
    id: 'version',
    head: w.version,
    cell: ({ version, runtime }) => <span title={runtime}>{version}</span>,
    isMinor: true,
  },
  {
    id: 'up',
    head: w.up,
    align: 'end',
    cell: ({ state, uptimeSeconds }) =>
      state === 'up' ? formatDuration(uptimeSeconds * 1000) : <Chip tone="bad">{w.silent}</Chip>,
  },
  {
    id: 'processes',
    head: w.processes,
    align: 'end',
    cell: ({ processes, processesUp }) => `${processesUp}/${processes}`,
  },
  {
    id: 'rate',
    head: w.perSecond,
    align: 'end',
    cell: ({ requests }) => formatNumber(requests.perSecond, { maximumFractionDigits: 1 }),
  },
  {
    id: 'leads',
    head: w.leads,
    align: 'end',
    cell: ({ leads }) => <span title={leads.join(', ')}>{formatNumber(leads.length)}</span>,
    isMinor: true,
  },
];

export function Gateways({ enabled }: { readonly enabled: boolean }) {
  const status = useAdmin('GetStatus', {}, { everyMs, enabled });
  if (!enabled) return null;
  return (
    <Card title={w.gateways}>
      <Reading query={status}>
        {({ gateways }) =>
          gateways.length === 0 ? (
            <Empty text={w.noGateways} />
          ) : (
            <ShortTable
              label={w.gateways}
              columns={columns}
              rows={gateways}
              rowKey={({ host, address }) => `${host} ${address}`}
            />
          )
        }
      </Reading>
    </Card>
  );
}
