/**
 * SimulateCustomPolicy and SimulatePrincipalPolicy:
 * https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
 */
import {
  compileTogether,
  policiesOfHolder,
  type Simulation,
  simulate,
  togetherMax,
} from '../../auth/identity-policies.ts';
import { parsePolicy } from '../../auth/policy/document.ts';
import type { Policy } from '../../auth/policy/evaluate.ts';
import type { Principal } from '../../auth/policy/request.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findNamed } from '../../domain/iam/entities.ts';
import type { Holder, RoleRecord, UserRecord } from '../../metadata/iam.ts';
import { parseArn, rootArn } from '../../protocol/arns.ts';
import { bool, element, many, optional as optionalElement, token } from '../../protocol/formats/codec.ts';
import { type Input, list, oneOf, optional, structure, text } from '../../protocol/operations/parameters.ts';
import { pageFields } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { type ActionRequest, page, pageEnd, pageFrom, policyDocument } from './fields.ts';

/** Every pair of an action and a resource is decided. */
const pairsMax = 1_000;
const namesMax = 200;
/** A page ends when it took so long: others want their turn. */
const pageMsMax = 50;

const contextEntry = structure({
  ContextKeyName: text({ min: 5, max: 256 }),
  ContextKeyValues: list(text({ min: 0, max: 2_048 }), { max: 100 }),
  ContextKeyType: optional(
    oneOf(
      ...['string', 'stringList', 'numeric', 'numericList', 'boolean', 'booleanList', 'ip', 'ipList'],
      ...['binary', 'binaryList', 'date', 'dateList'],
    ),
  ),
});
const printable = { pattern: /^[\x20-\x7e]+$/, must: 'printable ASCII' } as const;
const arn = text({ max: 2_048, ...printable });

const common = {
  ...page,
  ActionNames: list(text({ min: 3, max: 128, ...printable }), { min: 1, max: namesMax }),
  ResourceArns: list(arn, { max: namesMax }),
  ResourcePolicy: optional(policyDocument),
  ResourceOwner: optional(arn),
  CallerArn: optional(arn),
  ContextEntries: list(contextEntry, { max: 100 }),
  PermissionsBoundaryPolicyInputList: list(policyDocument, { max: 1 }),
};
type Common = Input<typeof common>;

const evaluation = element({
  EvalActionName: token,
  EvalResourceName: token,
  EvalDecision: token,
  MatchedStatements: many(element({ SourcePolicyId: token, SourcePolicyType: token }), {
    name: 'member',
    max: pairsMax,
  }),
  MissingContextValues: many(token, { name: 'member', max: pairsMax }),
  PermissionsBoundaryDecisionDetail: optionalElement(element({ AllowedByPermissionsBoundary: bool })),
});
const result = element({
  EvaluationResults: many(evaluation, { name: 'member', max: pairsMax }),
  ...pageFields,
});

async function policiesIn<Name extends string>(
  { clock }: Pick<Context, 'clock'>,
  { identity: { owner: account } }: ActionRequest,
  { input, name }: { readonly input: Readonly<Record<Name, readonly string[]>>; readonly name: Name },
): Promise<readonly Policy[]> {
  const policies = await compileTogether({ clock, account }, input[name], (text, index) => ({
    name: `${name}.${index + 1}`,
    document: parsePolicy(text, { kind: 'identity' }),
  }));
  if (policies !== undefined) return policies;
  const { bytes, patterns } = togetherMax;
  throw fail(
    'InvalidInput',
    `The policies of ${name} are too large together: the limit is ${bytes} bytes once they are compiled, and ${patterns} patterns with text between two wildcards.`,
  );
}

/** A key with one value is a plain value, whatever type the request declares, because the policy's operator determines the type. */
const factsIn = (entries: Common['ContextEntries']): Simulation['facts'] =>
  new Map(
    entries.map(({ ContextKeyName, ContextKeyValues: values, ContextKeyType: type }) => [
      ContextKeyName.toLowerCase(),
      values.length === 1 && !type?.endsWith('List') ? (values[0] ?? '') : values,
    ]),
  );

interface Asked {
  readonly principal: Principal;
  readonly identity: readonly Policy[];
  readonly boundary: readonly Policy[] | undefined;
}

async function evaluateAll(
  { clock }: Pick<Context, 'clock'>,
  request: ActionRequest,
  { input, asked }: { readonly input: Common; readonly asked: Asked },
) {
  const resources = input.ResourceArns.length === 0 ? ['*'] : input.ResourceArns;
  if (input.ActionNames.length * resources.length > pairsMax)
    throw fail('InvalidInput', `At most ${pairsMax} pairs of an action and a resource are simulated.`);
  const resourcePolicy =
    input.ResourcePolicy === undefined
      ? undefined
      : { name: 'ResourcePolicy', document: parsePolicy(input.ResourcePolicy, { kind: 'bucket' }) };
  const name = 'PermissionsBoundaryPolicyInputList';
  const boundary = await policiesIn({ clock }, request, { input, name });
  const simulation: Simulation = {
    ...asked,
    boundary: boundary.length === 0 ? asked.boundary : boundary,
    resourcePolicy,
    owner: accountIn(input.ResourceOwner) ?? request.identity.owner,
    facts: factsIn(input.ContextEntries),
  };
  const pairs = input.ActionNames.flatMap((each) => resources.map((on) => ({ action: each, resource: on })));
  const { after, max } = pageFrom(input);
  const from = Number.isInteger(Number(after)) ? Number(after) : 0;
  const to = input.MaxItems === undefined ? pairs.length : from + max;
  const EvaluationResults: ReturnType<typeof formatResult>[] = [];
  const began = clock.elapsed();
  for (const pair of pairs.slice(from, to)) {
    EvaluationResults.push(formatResult(simulation, pair));
    if (clock.elapsed() - began >= pageMsMax) break;
  }
  const end = from + EvaluationResults.length;
  return { EvaluationResults, ...pageEnd(end < pairs.length ? String(end) : undefined) };
}

const accountIn = (input: string | undefined): string | undefined =>
  input === undefined ? undefined : (/^arn:aws:iam::([^:]+):/.exec(input)?.[1] ?? input);

function formatResult(simulation: Simulation, pair: { readonly action: string; readonly resource: string }) {
  const { decision, matched, missing, isWithinBoundary } = simulate(simulation, pair);
  return {
    EvalActionName: pair.action,
    EvalResourceName: pair.resource,
    EvalDecision: decision,
    MatchedStatements: matched.map((SourcePolicyId) => ({ SourcePolicyId, SourcePolicyType: 'IAM Policy' })),
    MissingContextValues: missing,
    ...(isWithinBoundary === undefined
      ? {}
      : { PermissionsBoundaryDecisionDetail: { AllowedByPermissionsBoundary: isWithinBoundary } }),
  };
}

/** The principal of simulated requests, where it is not of the account. */
function supposed({ identity: { owner } }: ActionRequest, input: string | undefined): Principal {
  const parsed = input === undefined ? undefined : parseArn(input);
  if (input === rootArn(owner)) return { kind: 'root', account: owner, arn: input, userid: owner };
  if (input !== undefined && parsed?.kind !== 'user')
    throw fail('InvalidInput', `${input} is not the ARN of a user.`);
  const { account = owner, name = 'anybody' } = parsed ?? {};
  return { kind: 'user', account, arn: input ?? '', userid: name, username: name };
}

export const SimulateCustomPolicy = action(
  'SimulateCustomPolicy',
  { ...common, PolicyInputList: list(policyDocument, { min: 1, max: 50 }) },
  {
    resource: () => '*',
    result,
    run: async (ctx, request, input) => {
      const principal = supposed(request, input.CallerArn);
      const identity = await policiesIn(ctx, request, { input, name: 'PolicyInputList' });
      return evaluateAll(ctx, request, { input, asked: { principal, identity, boundary: undefined } });
    },
  },
);

export const SimulatePrincipalPolicy = action(
  'SimulatePrincipalPolicy',
  { ...common, PolicySourceArn: arn, PolicyInputList: list(policyDocument, { max: 50 }) },
  {
    resource: (_ctx, _call, { PolicySourceArn }) => PolicySourceArn,
    result,
    async run(ctx, request, input) {
      const source = await readSource(ctx, request, input.PolicySourceArn);
      const more = await policiesIn(ctx, request, { input, name: 'PolicyInputList' });
      const asked = {
        ...source,
        principal: input.CallerArn === undefined ? source.principal : supposed(request, input.CallerArn),
        identity: [...source.identity, ...more],
      };
      return evaluateAll(ctx, request, { input, asked });
    },
  },
);

const isTagged = (holder: Holder): holder is UserRecord | RoleRecord => 'tags' in holder;

/** @throws NoSuchEntity */
async function readSource(
  ctx: Context,
  { identity: { owner } }: ActionRequest,
  input: string,
): Promise<Asked> {
  const parsed = parseArn(input);
  const kind = parsed?.kind;
  const isHolder = kind === 'user' || kind === 'group' || kind === 'role';
  if (parsed === undefined || !isHolder) throw fail('InvalidInput', `${input} is no user, group or role.`);
  const holder =
    parsed.account === owner ? await findNamed(ctx, owner, { kind, name: parsed.name }) : undefined;
  if (holder === undefined || holder.path !== parsed.path)
    throw fail('NoSuchEntity', `The ${kind} ${input} cannot be found.`);
  const { identity, boundary } = await policiesOfHolder(ctx, owner, holder.id);
  const tags = new Map(isTagged(holder) ? holder.tags : []);
  const { id, name } = holder;
  const principal: Principal =
    kind === 'role'
      ? { kind: 'session', account: owner, arn: input, userid: id, tags }
      : { kind: 'user', account: owner, arn: input, userid: id, username: name, tags };
  return { principal, identity, boundary };
}
