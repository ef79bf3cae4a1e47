/** The pages of the console's table, and an address of each for a seed. */
import { parametersOf, type Seed } from './seeds.ts';

interface Pages {
  readonly builtPages: readonly string[];
  pathOf(name: string): string;
  pageOf(name: string): { readonly storageNeeds?: readonly string[]; readonly within?: string };
}
// Not an import that the compiler follows: it would check the components that the table names with the settings of tests.
const pagesFile: string = '../../console/app/pages.ts';
export const { builtPages, pathOf, pageOf } = (await import(pagesFile)) as Pages;

/** The path of a page, its parameters filled in. */
export const addressOf = (name: string, seed: Seed): string =>
  pathOf(name).replace(/\$(\w*)/g, (_, parameter: string) =>
    encodeURIComponent(parametersOf[seed][parameter] ?? ''),
  );

/** Panels and forms of the seed `typical`, by their addresses. */
export const panels: Readonly<Record<string, string>> = {
  object: '/buckets/photos/objects/2026/1/?key=2026%2F1%2Freport-0.csv',
  preview: '/buckets/photos/objects/2026/1/?key=2026%2F1%2Freport-0.csv&view=preview',
  'object-versions': '/buckets/photos/objects/2026/1/?key=2026%2F1%2Freport-0.csv&view=versions',
  readers: '/buckets/photos/objects/2026/1/?key=2026%2F1%2Freport-0.csv&view=readers',
  decided:
    '/why?asked=1&accessKey=SLUICETESTROOT000001&action=s3%3AGetObject&bucket=photos&key=2026%2F1%2Freport-0.csv',
  'create-bucket': '/buckets?create=1',
  quota: '/buckets/photos/usage?quota=1',
  configuration: '/buckets/photos/settings?family=lifecycle',
  cluster: '/clusters?cluster=default',
  worker: '/workers?worker=lifecycle',
  account: '/iam/accounts?open=root-account',
  users: '/iam/users',
};
