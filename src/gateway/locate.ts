/** The first stage: the target of a request, as its host and path name it. Nothing is verified yet. */
import { fail, Refusal } from '../base/errors.ts';
import type { Config } from '../config.ts';
import {
  type AddressRules,
  behindProxies,
  controlAt,
  localPath,
  matchArea,
  readHost,
  splitAddress,
} from '../protocol/address.ts';
import { describeOperation, select, selectAction } from '../protocol/operations/operations.ts';
import { isActionQuery, Query } from '../protocol/wire.ts';
import { header, ownHeaders } from '../request/parameters.ts';
import {
  type Asked,
  establish,
  type Located,
  type Received,
  type RequestContext,
} from '../request/request.ts';

const atService = {
  local: '/',
  virtual: undefined,
  area: undefined,
  isAction: true,
  isSite: false,
  format: 's3',
} as const;

/** @throws NotFound outside the mount point, and at the operators' address for what is no area */
export function locate(
  config: Pick<Config, 'SVC_TRUSTED_PROXIES'>,
  rules: AddressRules,
  request: Received,
): Located {
  const { incoming, path, rawQuery } = request;
  const { listener } = incoming;
  const wire = behindProxies(incoming.wire, config.SVC_TRUSTED_PROXIES);
  const query = new Query(rawQuery);
  const host = listener === 'admin' ? undefined : wire.headers.get('host');
  const named = readHost(host, rules);
  const virtual = named.bucket;
  const local = localPath(path, rules);
  if (local === undefined) throw fail('NotFound', `This gateway serves paths under ${rules.basePath}.`);
  const area = virtual === undefined && listener !== 'storage' ? matchArea(local) : undefined;
  if (area === undefined && listener === 'admin')
    throw fail('NotFound', 'This address serves operators only.');
  const control = area === undefined && !named.isSite ? controlAt(wire, local, query) : undefined;
  // The host name may begin with an account id, which is not a bucket.
  if (control !== undefined) return establish(request, { ...atService, wire, query, control });
  const isAction = virtual === undefined && area === undefined && isActionQuery(wire, local, query);
  // A preflight is the same at every address.
  const isSite = named.isSite && wire.method !== 'OPTIONS';
  const format = isSite ? 'html' : isAction ? 'iam' : area === undefined ? 'xml' : 'json';
  return establish(request, {
    wire,
    query,
    local,
    virtual,
    area,
    isAction,
    control,
    isSite,
    format,
  });
}

/** The request at least located: undefined where it was refused before. */
export const whereLocated = (request: RequestContext): (RequestContext & Located) | undefined =>
  // The cast: the facts of a stage are established together.
  request.wire === undefined ? undefined : (request as RequestContext & Located);

/** The operation of a request that was refused before it was selected; undefined where the request names none. */
export function askedAt({
  wire,
  query,
  local,
  virtual,
  area,
  isAction,
  control,
  isSite,
  findAdmin,
}: Located): Asked | undefined {
  if (isSite) return undefined;
  try {
    if (area !== undefined) return area === 'admin' ? findAdmin?.(wire.method, local) : undefined;
    const own = ownHeaders(wire, query, undefined);
    const { scope, bucket: bucketName, key } = splitAddress(local, virtual);
    const operation = control
      ? control.operation
      : isAction
        ? selectAction(wire.method, query.get('Action'))
        : select(wire.method, scope, query, (name) => header({ own }, name) !== undefined);
    const { audited } = describeOperation(operation);
    return { action: operation, audited, bucketName, key };
  } catch (cause) {
    if (cause instanceof Refusal) return undefined;
    throw cause;
  }
}

/** The name of the bucket that a request is for, '' where there is none. */
export function bucketNameAt({ local, virtual, area, isAction }: Located): string {
  if (area !== undefined || isAction) return '';
  try {
    return splitAddress(local, virtual).bucket;
  } catch (cause) {
    if (cause instanceof Refusal) return '';
    throw cause;
  }
}
