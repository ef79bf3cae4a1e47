/**
 * The servers of event targets, key providers and foreign replication peers, each started by
 * `engines/sinks/<name>/start.sh` or `engines/keys/<name>/start.sh` for the tests of one file. If one is not installed,
 * its suite is skipped with the reason; on CI it must run.
 */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePorts } from './ports.ts';
import { missingEngine } from './wanted.ts';

export type SinkServerName =
  | 'redis'
  | 'nats'
  | 'postgres'
  | 'mosquitto'
  | 'rabbitmq'
  | 'elasticmq'
  | 'kafka'
  | 'transit'
  | 'moto'
  | 'versitygw';

const keyServers: readonly SinkServerName[] = ['transit', 'moto'];
const scriptsOf = (name: SinkServerName): string =>
  `engines/${keyServers.includes(name) ? 'keys' : 'sinks'}/${name}`;
const root = join(import.meta.dirname, '../../..');
const home = process.env['ENGINES_HOME'] ?? join(homedir(), '.cache/sluice-engines');
const restartsMax = 50;
const run = promisify(execFile);

const hasProgram = (name: string): boolean => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
const isInstalled: Readonly<Record<SinkServerName, () => boolean>> = {
  redis: () => hasProgram('redis-server'),
  nats: () => existsSync(join(home, 'bin/nats-server')),
  postgres: () => existsSync('/usr/lib/postgresql'),
  mosquitto: () => hasProgram('mosquitto'),
  rabbitmq: () => hasProgram('rabbitmq-server'),
  elasticmq: () => existsSync(join(home, 'jars/elasticmq/lib')),
  versitygw: () => existsSync(join(home, 'bin/versitygw')),
  kafka: () => existsSync(join(home, 'jars/kafka/lib')),
  transit: () => existsSync(join(home, 'bin/vault-transit')),
  moto: () => existsSync(join(home, 'py/bin/moto_server')),
};

/** The reason why the server cannot run here; undefined if it can. */
export const noSinkServer = (name: SinkServerName): string | undefined =>
  missingEngine(isInstalled[name](), `needs ${scriptsOf(name)}/install.sh to have run`);

export interface SinkServer extends AsyncDisposable {
  readonly port: number;
  /** Kills the server with its children, and resolves when it has ended. */
  kill9(): Promise<void>;
  pause(): void;
  resume(): void;
  /** Starts the server again on its data. */
  restart(): Promise<void>;
}

const isRunning = (pid: number): boolean => {
  try {
    return !/\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
};

export async function startSinkServer(
  name: SinkServerName,
  environment: Readonly<Record<string, string>> = {},
): Promise<SinkServer> {
  // Some servers take the two ports behind theirs.
  const [port] = (await freePorts(1)) as [number];
  const env = { ...process.env, ...environment };
  const scripts = join(root, scriptsOf(name));
  const start = async (): Promise<void> => void (await run(join(scripts, 'start.sh'), [`${port}`], { env }));
  const pid = (): number => Number(readFileSync(join(home, `run/${name}-${port}/pid`), 'utf8'));
  const onExit = (): void => void spawnSync(join(scripts, 'stop.sh'), [`${port}`, 'wipe']);
  await start();
  process.once('exit', onExit);
  return {
    port,
    async kill9() {
      const killed = pid();
      process.kill(-killed, 'SIGKILL');
      while (isRunning(killed)) await sleep(10);
    },
    pause: () => void process.kill(-pid(), 'SIGSTOP'),
    resume: () => void process.kill(-pid(), 'SIGCONT'),
    async restart() {
      // The children of a killed PostgreSQL hold its data for a moment.
      for (let tries = 1; ; tries += 1) {
        try {
          return await start();
        } catch (error) {
          if (tries === restartsMax) throw error;
          await sleep(200);
        }
      }
    },
    async [Symbol.asyncDispose]() {
      process.off('exit', onExit);
      await run(join(scripts, 'stop.sh'), [`${port}`, 'wipe'], { env });
    },
  };
}
