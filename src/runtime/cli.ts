#!/usr/bin/env node
/** The `sluice` command: what must happen before anything else is loaded, and the exit code after it. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import * as module from 'node:module';
import { fileURLToPath } from 'node:url';

const { bun, deno } = process.versions;
const isNode = bun === undefined && deno === undefined;

// Stripping types and compiling is half of a start. The cache is beside the code, because others can write to a temporary directory.
const compileCache = fileURLToPath(new URL('../../.cache/compile', import.meta.url));
module.enableCompileCache?.(compileCache);
// Processes that this one forks find this file in the cache, too: without it each loads the type stripper, which takes 16 MB.
if (isNode) process.env['NODE_COMPILE_CACHE'] ??= compileCache;

/**
 * The joined modules of a checkout (deploy/package/bundle-server.ts), which load in a third of the time. Absent in the package, and where a
 * file that they were made of has changed since.
 */
function findBundle(): string | undefined {
  if (!isNode || !import.meta.url.endsWith('.ts')) return undefined;
  const bundle = new URL('../../.cache/server/cli.js', import.meta.url);
  return isOfTheseSources(bundle) ? bundle.href : undefined;
}

function isOfTheseSources(bundle: URL): boolean {
  const list = new URL('sources.json', bundle);
  if (!existsSync(list)) return false;
  const sources: readonly (readonly [string, number, number])[] = JSON.parse(readFileSync(list, 'utf8'));
  const root = fileURLToPath(new URL('../../', import.meta.url));
  return sources.every(([path, size, mtimeMs]) => {
    const now = statSync(root + path, { throwIfNoEntry: false });
    return now?.size === size && now.mtimeMs === mtimeMs;
  });
}

/** One line for an error of the operating system; the stack for any other, which is a bug. */
function sayable(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'syscall' in error ? error.message : (error.stack ?? error.message);
}

try {
  // The first import, because others stop an old runtime with a stack trace.
  await import('../base/assert-runtime.ts');
  const bundle = findBundle();
  // Written out, because a compiled program has what an import names.
  const { runCommand }: typeof import('./cli/cli-commands.ts') =
    bundle === undefined ? await import('./cli/cli-commands.ts') : await import(bundle);
  const [, script, ...args] = process.argv;
  // A single binary repeats its own name in the arguments of the processes that it forks.
  process.exitCode = await runCommand(args[0] === script ? args.slice(1) : args);
} catch (error) {
  process.stderr.write(`sluice: ${sayable(error)}\n`);
  process.exit(1);
}
