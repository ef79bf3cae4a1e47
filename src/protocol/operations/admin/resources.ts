/**
 * The resources that a request to the operator API names beside the path of its operation: in its query, in its body, or in its path by a
 * second name. Policies about these resources hold for the request too (docs/security.md, "Names in bodies").
 */

/**
 * What policies must say about the resource. A Deny of it refuses the request, whatever the rule.
 * - `scope`: the request is limited to it, so that an Allow must cover it, and need not cover the operation's own path.
 * - `part`: an Allow must cover it and the operation's own path.
 * - `alias`: another name of the operation's own path; an Allow of either is enough.
 * - `mention`: an Allow of the operation's own path is enough.
 */
export type ResourceRule = 'scope' | 'part' | 'alias' | 'mention';

export interface NamedResource {
  /**
   * The resource in policies, below `arn:aws:admin:::`. `{field}` stands for a parameter of the path or query or a field of the body,
   * `{own}` for the caller's account, `{a|b}` for the first of two that the request has, and `{field.view}` for what a value leads to:
   * `account` (the account of an ARN or an access key), `name` (the name in an ARN), `bucket` (of a resource in the audit log), `peer` (of a
   * destination), `keys` (the names of a map), `accounts` (the `account` of each entry of a list). A path of which the request lacks a field is not checked.
   */
  readonly path: string;
  readonly rule: ResourceRule;
}

/** A field that has the name of a resource, but names none of this installation, or none that policies know. */
export interface NoResource {
  readonly noResource: string;
}

const ruled =
  (rule: ResourceRule) =>
  (path: string): NamedResource => ({ path, rule });

export const scope = ruled('scope');
export const part = ruled('part');
export const alias = ruled('alias');
export const mention = ruled('mention');
export const noResource = (why: string): NoResource => ({ noResource: why });
