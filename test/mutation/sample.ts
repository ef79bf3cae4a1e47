/** Chooses random lines of the source that Stryker can change. */
import { globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const folders = ['src/auth', 'src/domain', 'src/protocol'];

interface Instrumenter {
  instrument(
    files: readonly { readonly name: string; readonly mutate: boolean; readonly content: string }[],
    options: {
      readonly excludedMutations: readonly string[];
      readonly plugins: null;
      readonly ignorers: readonly [];
    },
  ): Promise<{ readonly mutants: readonly Change[] }>;
}

interface Change {
  readonly fileName: string;
  readonly location: { readonly start: { readonly line: number }; readonly end: { readonly line: number } };
}

/**
 * @param place where Stryker is installed and the source is copied to
 * @returns ranges for Stryker's `mutate` option, one line each; a change of several lines belongs to none
 */
export async function sampleLines(
  place: string,
  { count, random }: { readonly count: number; readonly random: () => number },
): Promise<readonly string[]> {
  const changes = await listChanges(place);
  const lines = new Set(
    changes.filter(({ location: { start, end } }) => start.line === end.line).map(lineOf),
  );
  const shuffled = [...lines].map((line) => ({ line, at: random() })).toSorted((a, b) => a.at - b.at);
  process.stdout.write(`${changes.length} changes, ${lines.size} lines with a change of their own\n`);
  return shuffled.slice(0, count).map(({ line }) => line);
}

const lineOf = ({ fileName, location: { start } }: Change): string =>
  `${fileName}:${start.line + 1}:0-${start.line + 1}:999`;

async function listChanges(place: string): Promise<readonly Change[]> {
  const require = createRequire(join(place, 'package.json'));
  const load = (name: string) => import(pathToFileURL(require.resolve(name)).href);
  const { Instrumenter } = (await load('@stryker-mutator/instrumenter')) as {
    readonly Instrumenter: new (logger: object) => Instrumenter;
  };
  const nothing = (): void => {};
  const instrumenter = new Instrumenter({ debug: nothing, info: nothing, isDebugEnabled: () => false });
  const names = folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: place })).toSorted();
  const files = names.map((name) => ({
    name,
    mutate: true,
    content: readFileSync(join(place, name), 'utf8'),
  }));
  const options = { excludedMutations: ['StringLiteral'], plugins: null, ignorers: [] } as const;
  return (await instrumenter.instrument(files, options)).mutants;
}
