/** A child process that a test can end, kill or pause. */
import { spawn } from 'node:child_process';

export interface Program {
  readonly ended: Promise<void>;
  signal(name: NodeJS.Signals): void;
  /** Resolves when the process has ended. */
  kill9(): Promise<void>;
}

export function startProcess(program: string, args: readonly string[]): Program {
  const child = spawn(program, args, { stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
  // End the child with the tests, also when they fail.
  const onExit = (): void => void child.kill('SIGKILL');
  process.on('exit', onExit);
  void ended.then(() => process.off('exit', onExit));
  return {
    ended,
    signal: (name) => void child.kill(name),
    kill9: () => {
      child.kill('SIGKILL');
      return ended;
    },
  };
}
