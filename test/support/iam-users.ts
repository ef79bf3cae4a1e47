/** IAM users for tests, created by the root of their account, with their access keys. */
import type { Credential } from '../../src/ports/credentials.ts';
import { type Act, openActions, type Parameters } from './actions.ts';
import { alice, type GatewayWorld } from './gateway.ts';
import type { Answer, ClientOptions } from './gateway-client.ts';

export const allow = (...actions: readonly string[]): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: actions, Resource: '*' }],
  });

/** Fails the test with the text of the answer unless its status is 200. */
export async function must(answer: Promise<Answer>): Promise<Answer> {
  const found = await answer;
  if (found.status !== 200) throw new Error(`${found.status} ${found.text}`);
  return found;
}

export interface TestUser {
  readonly name: string;
  readonly credential: Credential;
  /** Sends IAM and STS actions as this user. */
  readonly act: Act;
}

export const credentialOf = (answer: Answer, owner: string): Credential => ({
  accessKey: answer.one('AccessKeyId') ?? '',
  secretKey: answer.one('SecretAccessKey') ?? '',
  owner,
  displayName: '',
  root: false,
  operator: false,
});

/** A user with an access key and the permissions in `policy`. */
export async function openUser(
  world: GatewayWorld,
  name: string,
  { root, policy }: { readonly root?: Credential; readonly policy?: string } = {},
): Promise<TestUser> {
  const iam = openActions(world, root === undefined ? {} : { credential: root });
  await must(iam('CreateUser', { UserName: name }));
  if (policy !== undefined) await must(putPolicy(iam, name, policy));
  const made = await must(iam('CreateAccessKey', { UserName: name }));
  const credential = credentialOf(made, root?.owner ?? 'alice-account');
  return { name, credential, act: openActions(world, { credential }) };
}

export const putPolicy = (iam: Act, UserName: string, PolicyDocument: string): Promise<Answer> =>
  iam('PutUserPolicy', { UserName, PolicyName: 'test', PolicyDocument });

export const trusting = (principal: object | string, condition?: object): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: principal,
        Action: ['sts:AssumeRole', 'sts:TagSession'],
        ...(condition === undefined ? {} : { Condition: condition }),
      },
    ],
  });

export interface TestSession {
  readonly options: ClientOptions & { readonly credential: Credential; readonly token: string };
  readonly act: Act;
  readonly answer: Answer;
}

/** The temporary credentials of an answer, and clients that use them. */
export function sessionOf(world: Pick<GatewayWorld, 'as'>, answer: Answer): TestSession {
  const credential = credentialOf(answer, '');
  const options = { credential, token: answer.one('SessionToken') ?? '' };
  return { options, act: openActions(world, options), answer };
}

export const assume = async (
  world: Pick<GatewayWorld, 'as'>,
  act: Act,
  { role, ...more }: { readonly role: string } & Parameters,
): Promise<TestSession> => {
  const parameters = { RoleArn: role, RoleSessionName: 'session', ...more };
  return sessionOf(world, await must(act('AssumeRole', parameters)));
};

/** All members of a list that comes in pages of `MaxItems`. */
export async function everyPage(
  iam: Act,
  action: string,
  {
    element,
    parameters = {},
    size,
  }: { readonly element: string; readonly parameters?: Parameters; readonly size: number },
): Promise<string[]> {
  const found: string[] = [];
  for (let marker: string | undefined; ; ) {
    const more: Parameters = marker === undefined ? {} : { Marker: marker };
    const page = await must(iam(action, { ...parameters, MaxItems: String(size), ...more }));
    const items = page.all(element);
    if (items.length > size) throw new Error(`${items.length} on a page of ${size}`);
    found.push(...items);
    marker = page.one('Marker');
    if ((marker !== undefined) !== (page.one('IsTruncated') === 'true')) throw new Error(page.text);
    if (marker === undefined) return found;
  }
}

/** A client with a key of the account `carol`, which tests import. */
export const clientOfCarol = (world: GatewayWorld, key: Record<string, string>) =>
  world.as({
    credential: {
      ...alice,
      owner: 'carol',
      accessKey: key['accessKey'] ?? '',
      secretKey: key['secretKey'] ?? '',
    },
  });
