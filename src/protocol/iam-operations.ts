/**
 * The operations of the public IAM and STS APIs that are served here, as rows of the operation table: each is asked
 * for by its name in `Action`, by GET or POST, so what is audited is told by the name and not by the method.
 */
interface ActionRow<Service extends string, Name extends string> {
  readonly on: `ANY service ?Action=${Name}`;
  readonly action: `${Service}:${Name}`;
  readonly audited: boolean;
  readonly judges: 'each';
}
type ActionRows<Service extends string, Names extends string> = {
  readonly [N in Names]: ActionRow<Service, N>;
};

const rows = <Service extends string, const Names extends string>(
  service: Service,
  audited: boolean,
  names: readonly Names[],
) =>
  Object.fromEntries(
    names.map((name) => {
      const row: ActionRow<Service, Names> = {
        on: `ANY service ?Action=${name}`,
        action: `${service}:${name}`,
        audited,
        judges: 'each',
      };
      return [name, row];
    }),
    // The cast: one entry was made of each name.
  ) as unknown as ActionRows<Service, Names>;

export const iamOperations = {
  ...rows('iam', true, ['CreateUser', 'UpdateUser', 'DeleteUser', 'TagUser', 'UntagUser']),
  ...rows('iam', false, ['GetUser', 'ListUsers', 'ListUserTags']),
  ...rows('iam', true, ['CreateAccessKey', 'UpdateAccessKey', 'DeleteAccessKey']),
  ...rows('iam', false, ['ListAccessKeys', 'GetAccessKeyLastUsed']),
  ...rows('sts', false, ['GetCallerIdentity']),
};
