/** Managed policies that every account has, under the names and ids that the public service gave them. */
import type { PolicyRecord } from '../../../metadata/iam.ts';
import { foldName } from '../entities.ts';

/** The account in the ARNs of built-in policies. */
export const builtInAccount = 'aws';

export interface BuiltInPolicy extends PolicyRecord {
  readonly text: string;
}

const allow = (elements: object): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', ...elements, Resource: '*' }] });

const created = Date.UTC(2015, 1, 6, 18, 40);
const builtIn = (id: string, name: string, more: Pick<BuiltInPolicy, 'description' | 'text'>) => ({
  id,
  name,
  ...more,
  path: '/',
  created,
  updated: created,
  tags: [],
  versions: [{ number: 1, created }],
  defaultVersion: 1,
  latestVersion: 1,
  attachments: 0,
  boundaries: 0,
});

export const builtInPolicies: readonly BuiltInPolicy[] = [
  builtIn('ANPAIWMBCKSKIEE64ZLYK', 'AdministratorAccess', {
    description: 'Provides full access to everything.',
    text: allow({ Action: '*' }),
  }),
  builtIn('ANPAIFIR6V6BVTRAHWINE', 'AmazonS3FullAccess', {
    description: 'Provides full access to all buckets.',
    text: allow({ Action: ['s3:*'] }),
  }),
  builtIn('ANPAIZTJ4DXE7G6AGAE6M', 'AmazonS3ReadOnlyAccess', {
    description: 'Provides read only access to all buckets.',
    text: allow({ Action: ['s3:Get*', 's3:List*'] }),
  }),
  builtIn('ANPAI7XKCFMBPM3QQRRVQ', 'IAMFullAccess', {
    description: 'Provides full access to IAM.',
    text: allow({ Action: ['iam:*'] }),
  }),
  builtIn('ANPAJKSO7NDY4T57MWDSQ', 'IAMReadOnlyAccess', {
    description: 'Provides read only access to IAM.',
    text: allow({
      Action: ['iam:Get*', 'iam:List*', 'iam:SimulateCustomPolicy', 'iam:SimulatePrincipalPolicy'],
    }),
  }),
  builtIn('ANPAJYRXTHIB4FOVS3ZXS', 'PowerUserAccess', {
    description: 'Provides full access to everything but IAM.',
    text: allow({ NotAction: ['iam:*'] }),
  }),
];

const byId = new Map(builtInPolicies.map((policy) => [policy.id, policy]));
const byName = new Map(builtInPolicies.map((policy) => [foldName(policy.name), policy]));

export const builtInById = (id: string): BuiltInPolicy | undefined => byId.get(id);
export function builtInNamed(name: string): BuiltInPolicy | undefined {
  const found = byName.get(foldName(name));
  return found?.name === name ? found : undefined;
}
