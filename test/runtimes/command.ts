/** The `sluice` command in a child process: its output, its exit code, and the lines that it prints at its start. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

export const cliPath = new URL('../../src/runtime/cli.ts', import.meta.url).pathname;

export interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  stdout: string;
  stderr: string;
}

let running: Run[] = [];

/** Ends all processes that a test left running. */
export async function endAll(): Promise<void> {
  for (const { child } of running) child.kill('SIGKILL');
  await Promise.all(running.map(({ ended }) => ended));
  running = [];
}

/** The child does not inherit the environment of the tests. */
export function started(args: readonly string[], env: Record<string, string> = {}): Run {
  const child = spawn(process.execPath, [cliPath, ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  const result: Run = { child, ended, stdout: '', stderr: '' };
  child.stdout.on('data', (text) => {
    result.stdout += String(text);
  });
  child.stderr.on('data', (text) => {
    result.stderr += String(text);
  });
  running.push(result);
  return result;
}

export async function finished(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Run & { code: number | null }> {
  const result = started(args, env);
  const code = await result.ended;
  return { ...result, code };
}

export const listening = ['--listen', '127.0.0.1:0'];
/** Waits for the banner, which is printed when the server accepts requests. */
export async function serving(
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Run & { url: string }> {
  const result = started(['serve', ...listening, ...args], env);
  const url = await new Promise<string>((resolve, reject) => {
    const look = (): void => {
      const found = /endpoint +(\S+)[\s\S]*\n {2}try .*\n/.exec(result.stdout)?.[1];
      if (found !== undefined) resolve(found);
    };
    result.child.stdout?.on('data', look);
    void result.ended.then((code) => reject(new Error(`exit ${code}: ${result.stdout}${result.stderr}`)));
  });
  return Object.assign(result, { url });
}

export async function stopped(result: Run): Promise<number | null> {
  result.child.kill('SIGTERM');
  return result.ended;
}

export const keysOf = ({ stdout }: Run): readonly (string | undefined)[] => [
  /access key +(\S+)/.exec(stdout)?.[1],
  /secret key +(\S+)\n/.exec(stdout)?.[1],
];
export const logOf = ({ stderr }: Run): readonly Record<string, unknown>[] =>
  stderr
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
