/** `sluice dev`: the server of `sluice/testing` from the shell, with a fixed key and a readable line for each request. */
import { readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { nearest } from '../../config/nearest.ts';
import { onStopSignals } from '../processes/node-processes.ts';
import { endAtOnce } from '../processes/process-exit.ts';
import { type ObservedRequest, type Seed, startTestServer, type TestServer } from '../testing/test-server.ts';

const flags = {
  port: { type: 'string', default: '9000' },
  host: { type: 'string', default: '127.0.0.1' },
  bucket: { type: 'string', multiple: true, default: [] as string[] },
  seed: { type: 'string', multiple: true, default: [] as string[] },
} as const;

/** How often background work runs, for what gets due while the server runs. */
const workMs = 10_000;

/** @returns the exit code */
export async function runDev(args: readonly string[]): Promise<number> {
  const parsed = readFlags(args);
  if (typeof parsed === 'string') {
    process.stderr.write(`sluice: ${parsed}\n`);
    return 2;
  }
  const buckets = Object.fromEntries(parsed.bucket.map((name) => [name, {}]));
  const seed = Object.assign(buckets, ...(await Promise.all(parsed.seed.map(readSeed)))) as Seed;
  const server = await startTestServer({
    port: Number(parsed.port),
    host: parsed.host,
    seed,
    onRequest: (request) => process.stdout.write(formatRequest(request)),
    log: (level, message, { cause } = {}) => {
      if (level !== 'WARN' && level !== 'ERROR') return;
      const why = cause instanceof Error ? `: ${cause.stack ?? cause.message}` : '';
      process.stderr.write(`${level} ${message}${why}\n`);
    },
  });
  const working = setInterval(() => void server.clock.advance(0).catch(() => {}), workMs);
  const stopped = new Promise<void>((resolve) => onStopSignals(resolve, endAtOnce));
  process.stdout.write(banner(server, Object.keys(seed)));
  await stopped;
  clearInterval(working);
  await server.close();
  return 0;
}

/** The flags, or what is wrong with them. */
function readFlags(args: readonly string[]) {
  const known = Object.keys(flags).map((name) => `--${name}`);
  const unknown = args.find((arg) => arg.startsWith('-') && !known.includes(arg.replace(/=.*/s, '')));
  if (unknown !== undefined) {
    const name = unknown.replace(/=.*/s, '');
    const close = nearest(name, known);
    return `${name} is not a flag of dev; ${close === undefined ? `known are ${known.join(', ')}` : `${close} is`}`;
  }
  try {
    const { values } = parseArgs({ args: [...args], options: flags });
    const isPort = /^[0-9]{1,5}$/.test(values.port) && Number(values.port) < 65_536;
    return isPort ? values : `--port=${values.port} is no port from 0 to 65535`;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Each folder of the directory as a bucket, with its files. */
async function readSeed(directory: string): Promise<Seed> {
  const folders = (await readdir(directory, { withFileTypes: true })).filter((entry) => entry.isDirectory());
  const buckets = folders.map(async ({ name }) => [name, await readBucket(join(directory, name))] as const);
  return Object.fromEntries(await Promise.all(buckets));
}

async function readBucket(folder: string): Promise<Seed[string]> {
  const objects: Record<string, Uint8Array> = {};
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    objects[relative(folder, path).replaceAll(sep, '/')] = await readFile(path);
  }
  return objects;
}

const columns = { method: 6, operation: 20 } as const;

/** `PUT    PutObject            200   1.3 ms  /photos/cat.jpg`, and the error code of a refusal behind the status. */
function formatRequest({ method, operation, status, code, ms, target }: ObservedRequest): string {
  const outcome = code === undefined ? String(status) : `${status} ${code}`;
  // A terminal would obey control characters.
  const visible = target.replace(/[^\x21-\x7e]/g, (char) => encodeURIComponent(char));
  return `${method.padEnd(columns.method)} ${operation.padEnd(columns.operation)} ${outcome}  ${ms.toFixed(1)} ms  ${visible}\n`;
}

function banner({ endpoint, region, credentials }: TestServer, buckets: readonly string[]): string {
  const { accessKeyId, secretAccessKey } = credentials;
  const rows: readonly (readonly [string, string])[] = [
    ['endpoint', endpoint],
    ['region', region],
    ['access key', accessKeyId],
    ['secret key', secretAccessKey],
    ['buckets', buckets.length === 0 ? 'none yet' : buckets.join(', ')],
    ['data', 'in memory only, gone at exit'],
    [
      'try',
      `AWS_ACCESS_KEY_ID=${accessKeyId} AWS_SECRET_ACCESS_KEY=${secretAccessKey} AWS_REGION=${region} aws --endpoint-url ${endpoint} s3 ls`,
    ],
  ];
  return `sluice dev\n${rows.map(([name, text]) => `  ${name.padEnd(10)}  ${text}`).join('\n')}\n\n`;
}
