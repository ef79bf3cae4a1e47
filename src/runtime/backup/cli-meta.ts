/** `sluice meta export` and `sluice meta import`: moves metadata from one backend to another while no gateway runs. */
import { existsSync } from 'node:fs';
import type { Context } from '../../context.ts';
import { leases } from '../../metadata/records/processes.ts';
import { tables } from '../../metadata/tables.ts';
import { type CommandWatch, withWatch } from '../cli/command-watch.ts';
import { compose } from '../compose/compose.ts';
import type { Configuration } from '../compose/configuration.ts';
import { flagValue, print, refuse, stopSignal } from './cli-backup.ts';
import { exportMetadata } from './export-metadata.ts';
import { ImportConflict, readExported } from './exported.ts';
import { importMetadata } from './import-metadata.ts';

const durable = ({ config }: Configuration): readonly string[] =>
  config.SVC_META_BACKEND === 'memory'
    ? ['this command is for metadata that is kept: set SVC_META_BACKEND']
    : [];

export function exportFaults(configuration: Configuration, own: readonly string[]): readonly string[] {
  const to = flagValue(own, '--to=');
  return [
    ...durable(configuration),
    ...(to === undefined ? ['name the directory of the export: --to=DIRECTORY'] : []),
  ];
}

export function importFaults(configuration: Configuration, own: readonly string[]): readonly string[] {
  const from = flagValue(own, '--from=');
  if (from === undefined)
    return [...durable(configuration), 'name the directory of the export: --from=DIRECTORY'];
  return [...durable(configuration), ...(existsSync(from) ? [] : [`there is no directory ${from}`])];
}

/** Resolves with the exit code. */
export const runExport = (configuration: Configuration, own: readonly string[]): Promise<number> =>
  withMetadata(configuration, own, async ({ context, watch, signal }) => {
    const why = (await runningGateway(context)) ?? (await unfinished(context));
    if (why !== undefined) return refuse(why);
    const to = flagValue(own, '--to=') ?? '';
    const exported = await exportMetadata(context.metadata, { to, watch, signal });
    watch?.clear();
    const rows = Object.values(exported.tables).reduce((sum, table) => sum + table.rows, 0);
    print(own.includes('--json') ? JSON.stringify(exported) : `${rows} rows exported to ${to}`);
    return 0;
  });

/** Resolves with the exit code. */
export const runImport = (configuration: Configuration, own: readonly string[]): Promise<number> =>
  withMetadata(configuration, own, async ({ context, watch, signal }) => {
    const from = flagValue(own, '--from=') ?? '';
    const exported = await readExported(from);
    if (exported === undefined) return refuse(`${from} has no export.json that this version reads`);
    const open = Object.values(tables).filter(({ name }) => exported.tables[name]?.isComplete === false);
    if (open.length > 0) return refuse(`the export in ${from} was cut short: run sluice meta export again`);
    const why = await runningGateway(context);
    if (why !== undefined) return refuse(why);
    const differences = await importMetadata(context.metadata, exported, { from, watch, signal });
    watch?.clear();
    const rows = Object.values(exported.tables).reduce((sum, table) => sum + table.rows, 0);
    if (own.includes('--json')) print(JSON.stringify({ rows, differences }));
    else {
      for (const { table, expected, found } of differences)
        print(`${table} differs from the export: ${expected} rows there, ${found} here`);
      if (differences.length === 0) print(`${rows} rows imported and compared`);
    }
    return differences.length === 0 ? 0 : 1;
  });

interface Working {
  readonly context: Context;
  readonly watch: CommandWatch | undefined;
  readonly signal: AbortSignal;
}

async function withMetadata(
  { config }: Configuration,
  own: readonly string[],
  work: (working: Working) => Promise<number>,
): Promise<number> {
  const signal = stopSignal();
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
    return await withWatch(own, (watch) => work({ context, watch, signal }));
  } catch (cause) {
    if (cause instanceof ImportConflict || signal.aborted) return refuse((cause as Error).message);
    throw cause;
  } finally {
    await close();
  }
}

/** Rows change while a gateway runs, so that an export would be of no single moment. */
async function runningGateway({ metadata }: Context): Promise<string | undefined> {
  const now = await metadata.now();
  for await (const { rows } of metadata.everyRow?.(leases) ?? [])
    for (const { row } of rows) {
      const { name, expires } = row as { readonly name: string; readonly expires: number };
      if (expires > now)
        return `a gateway holds the lease ${name}: stop all gateways first, or wait 15 seconds after a crash`;
    }
  return undefined;
}

async function unfinished({ metadata }: Context): Promise<string | undefined> {
  for (const table of Object.values(tables))
    if ((await metadata.hasPendingPuts?.(table)) === true)
      return 'a gateway ended in the middle of a commit: start one for two minutes, stop it, and export then';
  for await (const { rows } of metadata.everyRow?.(tables.buckets) ?? [])
    for (const { row } of rows) {
      const { name, splittingTo } = row as { readonly name: string; readonly splittingTo?: number };
      if (splittingTo !== undefined)
        return `the shards of the bucket ${name} are being split: let a gateway finish that first`;
    }
  return undefined;
}
