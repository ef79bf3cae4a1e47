/** Access points for tests: their actions, their two addresses, and one on a bucket with an object. */
import { policyOf, type Written } from './access.ts';
import type { Act } from './actions.ts';
import { alice, type GatewayWorld } from './gateway.ts';
import type { Answer } from './gateway-client.ts';
import { must } from './iam-users.ts';

export const domain = 'store.example';
export const arn = 'arn:aws:s3:default:alice-account:accesspoint/photos';
export const open = { settings: { SVC_DOMAIN: domain } };

/** The actions on access points, by default as alice. */
export const acting = (world: GatewayWorld, credential = alice): Act => {
  const client = world.as({ credential });
  return (Action, parameters = {}) => client.get('/', { query: { Action, ...parameters } });
};
/** The same in the shape of S3 Control: the method, the path behind `accesspoint`, and a body. */
export const controlling =
  (world: GatewayWorld, credential = alice, account = credential.owner) =>
  (method: string, path: string, body?: string): Promise<Answer> =>
    world.as({ credential, host: `${account}.${domain}` }).send(method, `/v20180820/accesspoint${path}`, {
      headers: { '*-account-id': account },
      ...(body === undefined ? {} : { body }),
    });

export const open4 = Object.fromEntries(
  ['BlockPublicAcls', 'IgnorePublicAcls', 'BlockPublicPolicy', 'RestrictPublicBuckets'].map((name) => [
    `PublicAccessBlockConfiguration.${name}`,
    'false',
  ]),
);

/** Alice's bucket with an object and the access point `photos`. */
export async function furnished(world: GatewayWorld, more: Record<string, string> = {}): Promise<string> {
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  const made = await must(acting(world)('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket', ...more }));
  return made.one('Alias') ?? '';
}

export const policyFor = (...statements: readonly Written[]): string =>
  policyOf(
    ...statements.map((statement) => ({ Resource: `${arn}/object/*`, Action: 's3:GetObject', ...statement })),
  );
