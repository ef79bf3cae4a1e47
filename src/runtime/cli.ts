#!/usr/bin/env node
/** The `sluice` command: what must happen before anything else is loaded, and the exit code after it. */
import * as module from 'node:module';

// Stripping types and compiling is half of a start. The cache is beside the code, because others can write to a temporary directory.
module.enableCompileCache?.(new URL('../../.cache/compile', import.meta.url).pathname);

/** One line for an error of the operating system; the stack for any other, which is a bug. */
function sayable(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'syscall' in error ? error.message : (error.stack ?? error.message);
}

try {
  // The first import, because others stop an old runtime with a stack trace.
  await import('../base/assert-runtime.ts');
  const { runCommand } = await import('./cli/cli-commands.ts');
  const [, script, ...args] = process.argv;
  // A single binary repeats its own name in the arguments of the processes that it forks.
  process.exitCode = await runCommand(args[0] === script ? args.slice(1) : args);
} catch (error) {
  process.stderr.write(`sluice: ${sayable(error)}\n`);
  process.exit(1);
}
