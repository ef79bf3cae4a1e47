/**
 * The operations on access points, as rows of the operation table. They are action queries; requests in the public API's own form
 * (`/v20180820/accesspoint/…`, see `control-path.ts`) select the same rows.
 */
export interface Row<Name extends string> {
  readonly on: `ANY service ?Action=${Name}`;
  readonly action: `s3:${Name}`;
  readonly audited: boolean;
  readonly judges: 'each';
}

const row = <const Name extends string>(name: Name): Row<Name> => ({
  on: `ANY service ?Action=${name}`,
  action: `s3:${name}`,
  audited: !/^(Get|List)/.test(name),
  judges: 'each',
});

export const accessPointOperations = {
  CreateAccessPoint: row('CreateAccessPoint'),
  GetAccessPoint: row('GetAccessPoint'),
  DeleteAccessPoint: row('DeleteAccessPoint'),
  ListAccessPoints: row('ListAccessPoints'),
  PutAccessPointPolicy: row('PutAccessPointPolicy'),
  GetAccessPointPolicy: row('GetAccessPointPolicy'),
  DeleteAccessPointPolicy: row('DeleteAccessPointPolicy'),
  GetAccessPointPolicyStatus: row('GetAccessPointPolicyStatus'),
};
