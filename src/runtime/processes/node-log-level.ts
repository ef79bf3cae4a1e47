/**
 * The log of a Node process, and its level at run time: changed by operators through the admin API, and by SIGUSR2, for
 * every process of the node.
 */
import cluster from 'node:cluster';
import type { Config } from '../../config.ts';
import type { Announcement, Siblings } from '../../ports/siblings.ts';
import type { LogLevel, LogLevelControl } from '../../ports/telemetry.ts';
import { configureLog } from '../../telemetry/log.ts';
import { recentLines } from './node-diagnostics.ts';
import { announceToProcesses } from './node-siblings.ts';

/** Standard output is for the operator at the terminal, standard error for log collectors. */
export function logToStandardError(level: Config['SVC_LOG_LEVEL']): void {
  configureLog({
    level,
    write: (line) => {
      recentLines.add(line, Date.now());
      process.stderr.write(`${line}\n`);
    },
  });
}

const logLevelTopic = 'log-level';
/** How long the other processes may take to answer. A signal does not wait for longer. */
const announceMs = 2_000;
/** A process that is started again begins with the level of the others. */
const inherited = 'SLUICE_LOG_LEVEL';

const levels: ReadonlySet<string> = new Set(['DEBUG', 'INFO', 'WARN', 'ERROR'] satisfies LogLevel[]);
const isLevel = (text: string | undefined): text is LogLevel => text !== undefined && levels.has(text);

interface NodeLogLevel extends LogLevelControl {
  /** Obeys the other processes of the node, and tells them of a signal. */
  share(siblings: Siblings): void;
}

/**
 * Configures the log of this process.
 * @param configured what a second SIGUSR2 returns to
 */
export function openLogLevel(configured: LogLevel): NodeLogLevel {
  const input = process.env[inherited];
  let level = isLevel(input) ? input : configured;
  let others: Siblings | undefined;
  logToStandardError(level);
  const control: NodeLogLevel = {
    get: () => level,
    set(next) {
      level = next;
      logToStandardError(next);
      if (cluster.isPrimary) process.env[inherited] = next;
    },
    share(siblings) {
      others = siblings;
      siblings.subscribe(logLevelTopic, (about) => {
        if (isLevel(about)) control.set(about);
      });
    },
  };
  process.on('SIGUSR2', () => {
    control.set(level === 'DEBUG' ? configured : 'DEBUG');
    const announcement = { topic: logLevelTopic, about: level };
    if (cluster.isPrimary) announceToProcesses(announcement);
    else void others?.announce(announcement, announceMs);
  });
  return control;
}

/** For the primary: it obeys what its processes announce. */
export const followLogLevel =
  (control: LogLevelControl) =>
  ({ topic, about }: Announcement): void => {
    if (topic === logLevelTopic && isLevel(about)) control.set(about);
  };
