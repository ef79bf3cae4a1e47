/** A real OpenTelemetry collector, whose file exporter shows what arrived. */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from './ports.ts';
import { missingEngine } from './wanted.ts';

const scripts = join(import.meta.dirname, '../../../engines/otelcol');
const home = process.env['ENGINES_HOME'] ?? join(homedir(), '.cache/sluice-engines');
const run = promisify(execFile);

/** The reason why the collector cannot run here; undefined if it can. */
export const noCollector = missingEngine(
  existsSync(join(home, 'bin/otelcol')),
  'needs engines/otelcol/install.sh to have run',
);

type Value = { readonly stringValue?: string; readonly intValue?: string; readonly doubleValue?: number };

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly { readonly key: string; readonly value: Value }[];
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status?: { readonly code?: number; readonly message?: string };
}

export const attributeOf = ({ attributes = [] }: ReceivedSpan, name: string): string | undefined => {
  const found = attributes.find(({ key }) => key === name)?.value;
  return found?.stringValue ?? found?.intValue ?? found?.doubleValue?.toString();
};

export interface Collector extends AsyncDisposable {
  readonly url: string;
  spans(): readonly ReceivedSpan[];
}

interface Batch {
  readonly resourceSpans: readonly { readonly scopeSpans: readonly { readonly spans: ReceivedSpan[] }[] }[];
}

export async function startCollector(): Promise<Collector> {
  const [port] = (await freePorts(1)) as [number];
  const wipe = (): void => void spawnSync(join(scripts, 'stop.sh'), [`${port}`, 'wipe']);
  await run(join(scripts, 'start.sh'), [`${port}`]);
  process.once('exit', wipe);
  const file = join(home, `run/otelcol-${port}/traces.jsonl`);
  return {
    url: `http://127.0.0.1:${port}`,
    spans: () =>
      (existsSync(file) ? readFileSync(file, 'utf8') : '')
        .split('\n')
        // The last line may not be complete yet.
        .slice(0, -1)
        .flatMap((line) => (JSON.parse(line) as Batch).resourceSpans)
        .flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
    async [Symbol.asyncDispose]() {
      process.off('exit', wipe);
      await run(join(scripts, 'stop.sh'), [`${port}`, 'wipe']);
    },
  };
}
