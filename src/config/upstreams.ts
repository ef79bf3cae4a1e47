/**
 * `SVC_UPSTREAMS`: the S3 services that `upstream-store` keeps objects on, each a cluster. The settings `SVC_UPSTREAM_…` are defaults for
 * the fields that an entry leaves out; a plain id is also the name of its bucket.
 */
import { type EntriesRule, matching, path, readEntries } from './entries.ts';
import { type Setting, value } from './setting.ts';

export interface UpstreamSetting {
  readonly id: string;
  readonly endpoint?: string;
  readonly region?: string;
  readonly bucket?: string;
  readonly accessKey?: string;
  readonly secretKey?: string;
  readonly secretKeyFile?: string;
  readonly style?: 'path' | 'virtual-host';
  /** A prefix of the names of all its objects. */
  readonly prefix?: string;
  readonly caFile?: string;
  readonly insecure?: boolean;
}

/** An upstream with everything that the settings say of it. */
export interface ResolvedUpstream
  extends Omit<Required<UpstreamSetting>, 'secretKey' | 'secretKeyFile' | 'caFile'> {
  readonly secretKey: string | undefined;
  readonly secretKeyFile: string | undefined;
  readonly caFile: string | undefined;
}

export const isEndpoint = (input: string): boolean => {
  if (!URL.canParse(input)) return false;
  const { protocol, pathname, search, hash, username } = new URL(input);
  return /^https?:$/.test(protocol) && pathname === '/' && search + hash + username === '';
};
export const regionPattern = /^[\w-]{1,64}$/;
export const keyPattern = /^[\x21-\x7e]{1,256}$/;

const rule: EntriesRule<UpstreamSetting> = {
  what: 'upstreams',
  fields: {
    endpoint: {
      ask: 'an http or https address without a path',
      isRight: (input) => typeof input === 'string' && isEndpoint(input),
    },
    region: matching(regionPattern, 'the name of a region'),
    bucket: matching(/^[A-Za-z0-9][\w.-]{1,254}$/, 'the name of a bucket'),
    accessKey: matching(keyPattern, 'printable ASCII without spaces'),
    secretKey: matching(keyPattern, 'printable ASCII without spaces'),
    secretKeyFile: path,
    style: matching(/^(path|virtual-host)$/, '"path" or "virtual-host"'),
    prefix: matching(/^[\w./-]{0,200}$/, 'at most 200 letters, digits, ".", "_", "-" and "/"'),
    caFile: path,
    insecure: { ask: 'true or false', isRight: (input) => typeof input === 'boolean' },
  },
  together: ({ secretKey, secretKeyFile }) =>
    secretKey !== undefined && secretKeyFile !== undefined
      ? 'has both secretKey and secretKeyFile'
      : undefined,
};

export const upstreams = (doc: string): Setting<readonly UpstreamSetting[]> => ({
  kind: `comma list of buckets, or JSON array of \`{id, ${Object.keys(rule.fields).join('?, ')}?}\``,
  doc,
  fallback: '',
  read: (input) => (input === '' ? value([]) : readEntries(input, rule)),
});

/** The settings that say it for all. */
interface Defaults {
  readonly SVC_UPSTREAMS: readonly UpstreamSetting[];
  readonly SVC_UPSTREAM_ENDPOINT?: string | undefined;
  readonly SVC_UPSTREAM_REGION: string;
  readonly SVC_UPSTREAM_ACCESS_KEY?: string | undefined;
  readonly SVC_UPSTREAM_SECRET_KEY?: string | undefined;
  readonly SVC_UPSTREAM_SECRET_KEY_FILE?: string | undefined;
}

/** Every upstream, with what it lacks still. */
export function resolveUpstreams(
  config: Defaults,
): readonly { readonly upstream: ResolvedUpstream; readonly missing: readonly string[] }[] {
  return config.SVC_UPSTREAMS.map((entry) => {
    const { endpoint = config.SVC_UPSTREAM_ENDPOINT, accessKey = config.SVC_UPSTREAM_ACCESS_KEY } = entry;
    const ownSecret = entry.secretKey !== undefined || entry.secretKeyFile !== undefined;
    const secret = ownSecret
      ? entry
      : { secretKey: config.SVC_UPSTREAM_SECRET_KEY, secretKeyFile: config.SVC_UPSTREAM_SECRET_KEY_FILE };
    const missing = [
      ...(endpoint === undefined ? ['an endpoint'] : []),
      ...(accessKey === undefined ? ['an access key'] : []),
      ...(secret.secretKey === undefined && secret.secretKeyFile === undefined ? ['a secret key'] : []),
    ];
    const { id, bucket = id, region = config.SVC_UPSTREAM_REGION, style = 'path' } = entry;
    const { prefix = defaultPrefix, caFile, insecure = false } = entry;
    const { secretKey, secretKeyFile } = secret;
    const place = { id, endpoint: endpoint ?? '', region, bucket, style, prefix };
    const trust = { accessKey: accessKey ?? '', secretKey, secretKeyFile, caFile, insecure };
    return { upstream: { ...place, ...trust }, missing };
  });
}

/** Separates our objects from any others in the bucket. */
const defaultPrefix = 'sluice/';
