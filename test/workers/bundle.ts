/** Entries bundled for workerd as wrangler does it. */
import { rolldown } from 'rolldown';

export interface BundleOptions {
  readonly minify?: boolean;
}

/** @returns the module; the workers of a test are one file */
export async function bundleWorker(entry: string, { minify = false }: BundleOptions = {}): Promise<string> {
  const build = await rolldown({
    input: entry,
    platform: 'neutral',
    resolve: { mainFields: ['module', 'main'], conditionNames: ['workerd', 'worker', 'browser', 'import'] },
    external: [/^node:/, /^cloudflare:/],
    logLevel: 'silent',
  });
  // As wrangler's minifier removes them, annotations of pure calls included.
  const comments = !minify;
  const { output } = await build.generate({
    format: 'esm',
    minify,
    comments,
    codeSplitting: false,
  } as object);
  await build.close();
  if (output.length !== 1) throw new Error(`the bundle has ${output.length} files`);
  return output[0].code;
}
