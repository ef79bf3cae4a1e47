#!/usr/bin/env node
/** The `sluice` command: what must happen before anything else is loaded, and the exit code after it. */
import * as module from 'node:module';

// Stripping types and compiling is half of a start. Beside the code, not in a temporary directory that others write to.
module.enableCompileCache?.(new URL('../../.cache/compile', import.meta.url).pathname);

/** The system's own refusals say it all in a line; anything else is a bug, and its stack is wanted. */
function sayable(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'syscall' in error ? error.message : (error.stack ?? error.message);
}

try {
  const { runCommand } = await import('./cli/cli-commands.ts');
  process.exitCode = await runCommand(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`sluice: ${sayable(error)}\n`);
  process.exit(1);
}
