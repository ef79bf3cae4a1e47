/** The console as `npm run build:console` wrote it: files beside the code of this package. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { ConsoleAsset, ConsoleAssets } from '../ports/console-assets.ts';

/** In the repository and in the package: `src/runtime` and `dist/runtime` lie equally deep. */
const builtFolder = fileURLToPath(new URL('../../dist/console/', import.meta.url));

async function readIfThere(path: string): Promise<Uint8Array | undefined> {
  try {
    return new Uint8Array(await readFile(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Files are kept once read: a build has few, and their names change with their content. */
export function consoleFiles(folder = builtFolder): ConsoleAssets {
  const known = new Map<string, ConsoleAsset>();
  const readAsset = async (name: string, gzip: boolean): Promise<ConsoleAsset | undefined> => {
    const bytes = await readIfThere(`${folder}/assets/${name}${gzip ? '.gz' : ''}`);
    return bytes && { bytes, ...(gzip ? { encoding: 'gzip' as const } : {}) };
  };
  return {
    async page() {
      const bytes = await readIfThere(`${folder}/page.html`);
      return bytes && new TextDecoder().decode(bytes);
    },
    async read(name, { gzip }) {
      const key = `${gzip ? 'gzip' : 'plain'} ${name}`;
      const found = known.get(key) ?? (await readAsset(name, gzip));
      if (found !== undefined) known.set(key, found);
      return found;
    },
  };
}
