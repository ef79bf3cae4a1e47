/** The actions on the tags of users, roles and managed policies: the same three for each. */
import type { Awaitable } from '../../base/awaitable.ts';
import type { Context } from '../../context.ts';
import { getNamed, mergeTags, withoutTags } from '../../domain/iam/entities.ts';
import { changePolicyTags, getPolicy } from '../../domain/iam/managed-policies.ts';
import { updateRole } from '../../domain/iam/roles.ts';
import { updateUser } from '../../domain/iam/users.ts';
import type { IamTag } from '../../metadata/iam.ts';
import { element } from '../../protocol/formats/codec.ts';
import type { Parameter } from '../../protocol/operations/parameters.ts';
import { pageFields, tagList } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { describeTags, type InputTags, tagFacts, toIamTags } from './descriptions.ts';
import { type ActionRequest, page, pageIn, policyArnField, someTags, tagKeys } from './fields.ts';
import { holderResource, holders, policyNamed } from './resources.ts';

type Tags = readonly IamTag[];
interface Change {
  readonly name: string;
  readonly tags: (present: Tags) => Tags;
}

/** An entity with tags. */
interface Tagged {
  /** The parameter that names it. */
  readonly field: string;
  readonly name: Parameter<string>;
  readonly resource: (ctx: Context, request: ActionRequest, name: string) => Awaitable<string>;
  readonly find: (ctx: Context, request: ActionRequest, name: string) => Promise<{ readonly tags: Tags }>;
  readonly change: (ctx: Context, request: ActionRequest, change: Change) => Promise<void>;
}
type TaggedWord = 'User' | 'Role' | 'Policy';

const holder = (word: 'User' | 'Role'): Omit<Tagged, 'change'> => {
  const { kind, field, name: parameter } = holders[word];
  return {
    field,
    name: parameter,
    resource: (ctx, request, name) => holderResource(ctx, request, { kind, name }),
    find: (ctx, { identity }, name) => getNamed(ctx, identity.owner, { kind, name }),
  };
};

const tagged: Readonly<Record<TaggedWord, Tagged>> = {
  User: {
    ...holder('User'),
    change: (ctx, { identity }, { name, tags }) =>
      updateUser(ctx, identity.owner, { user: name, to: { tags } }),
  },
  Role: {
    ...holder('Role'),
    change: (ctx, { identity }, { name, tags }) =>
      updateRole(ctx, identity.owner, { role: name, to: { tags } }),
  },
  Policy: {
    field: 'PolicyArn',
    name: policyArnField,
    resource: (_ctx, _call, arn) => arn,
    find: (ctx, request, arn) => getPolicy(ctx, request.identity.owner, policyNamed(request, arn)),
    change: (ctx, request, { name, tags }) =>
      changePolicyTags(ctx, request.identity.owner, { policy: policyNamed(request, name), to: tags }),
  },
};

function tagActions<W extends TaggedWord>(word: W) {
  const { field, name, find, change, ...rules } = tagged[word];
  const named = { [field]: name };
  const nameIn = (input: object): string => String((input as Readonly<Record<string, unknown>>)[field]);
  const resource = (ctx: Context, request: ActionRequest, input: object) =>
    rules.resource(ctx, request, nameIn(input));
  return {
    tag: action(
      `Tag${word}`,
      { ...named, Tags: someTags },
      {
        resource,
        facts: ({ Tags }: { readonly Tags: InputTags }) => tagFacts(Tags),
        run: (ctx, request, input: { readonly Tags: InputTags }) =>
          change(ctx, request, {
            name: nameIn(input),
            tags: (present) => mergeTags(present, toIamTags(input.Tags)),
          }),
      },
    ),
    untag: action(
      `Untag${word}`,
      { ...named, TagKeys: tagKeys },
      {
        resource,
        run: (ctx, request, input: { readonly TagKeys: readonly string[] }) =>
          change(ctx, request, {
            name: nameIn(input),
            tags: (present) => withoutTags(present, input.TagKeys),
          }),
      },
    ),
    /** Fifty at most. */
    list: action(
      `List${word}Tags`,
      { ...page, ...named },
      {
        resource,
        result: element({ Tags: tagList, ...pageFields }),
        async run(ctx, request, input) {
          const { tags } = await find(ctx, request, nameIn(input));
          const { items, end } = pageIn(tags, input, ([key]) => key);
          return { Tags: describeTags(items), ...end };
        },
      },
    ),
  };
}

export const { tag: TagUser, untag: UntagUser, list: ListUserTags } = tagActions('User');
export const { tag: TagRole, untag: UntagRole, list: ListRoleTags } = tagActions('Role');
export const { tag: TagPolicy, untag: UntagPolicy, list: ListPolicyTags } = tagActions('Policy');
