/** The processes of a node, by its log. */
import type { TestServer } from './server.ts';

interface LogLine {
  readonly message: string;
  readonly pid: number;
  readonly pause_ms: number;
}

/** @returns the lines that contain a text */
export const logLines = (server: TestServer, message: string): readonly LogLine[] =>
  server
    .log()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.includes(message))
    .map((line) => JSON.parse(line) as LogLine);

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** The ids of the processes that serve, in the order of their starts. */
export const listServing = (server: TestServer): readonly number[] =>
  logLines(server, '"serving"')
    .map(({ pid }) => pid)
    .filter(isAlive);
