/**
 * The operator API (spec "Operator JSON API"): every operation as the request that asks for it, below `/admin/v1`. A
 * `:name` in the path is a parameter. Whatever is no GET is audited as `admin:<Name>`, unless it says that it reads.
 */
export interface AdminOperation {
  readonly on: `${'GET' | 'POST' | 'PUT' | 'DELETE'} /${string}`;
  /** Changes nothing, whatever its method. */
  readonly reads?: true;
}

export const adminPrefix = '/admin/v1';

export const adminOperations = {
  ExplainDecision: { on: 'POST /why', reads: true },
} as const satisfies Readonly<Record<string, AdminOperation>>;

export type AdminOperationName = keyof typeof adminOperations;
export const adminOperationNames = Object.keys(adminOperations) as readonly AdminOperationName[];

export function describeAdminOperation(name: AdminOperationName) {
  const { on, reads }: AdminOperation = adminOperations[name];
  const [method = '', path = ''] = on.split(' ');
  return { method, path: adminPrefix + path, audited: method !== 'GET' && reads !== true };
}
