/** The pages of the console's table, and an address of each for a seed. */
import { parametersOf, type Seed } from './seeds.ts';

interface Pages {
  readonly builtPages: readonly string[];
  pathOf(name: string): string;
}
// Not an import that the compiler follows: it would check the components that the table names with the settings of tests.
const pagesFile: string = '../../console/app/pages.ts';
export const { builtPages, pathOf } = (await import(pagesFile)) as Pages;

/** The path of a page, its parameters filled in. */
export const addressOf = (name: string, seed: Seed): string =>
  pathOf(name).replace(/\$(\w*)/g, (_, parameter: string) =>
    encodeURIComponent(parametersOf[seed][parameter] ?? ''),
  );
