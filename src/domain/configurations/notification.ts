/** The notification configuration of a bucket: which events go to which sinks. */
import type { ConfigurationOf } from '../../protocol/schemas/families.ts';

export interface Notification extends ConfigurationOf<'notification'> {}
/** What the rules of the three kinds have in common. */
export type NotificationRule = Omit<Notification['TopicConfiguration'][number], 'Topic'>;

/** A rule of any of the three kinds, with its target ARN and the service that the ARN must name. */
export interface TargetedRule extends NotificationRule {
  readonly arn: string;
  readonly service: 'sns' | 'sqs' | 'lambda';
}

export const listRules = (notification: Notification): readonly TargetedRule[] => [
  ...notification.TopicConfiguration.map(({ Topic: arn, ...rule }) => ({
    ...rule,
    arn,
    service: 'sns' as const,
  })),
  ...notification.QueueConfiguration.map(({ Queue: arn, ...rule }) => ({
    ...rule,
    arn,
    service: 'sqs' as const,
  })),
  ...notification.CloudFunctionConfiguration.map(({ CloudFunction: arn, ...rule }) => ({
    ...rule,
    arn,
    service: 'lambda' as const,
  })),
];

/** The events of the public API; an event may have kinds after a colon. */
const kinds: Readonly<Record<string, readonly string[]>> = {
  ObjectCreated: ['Put', 'Post', 'Copy', 'CompleteMultipartUpload'],
  ObjectRemoved: ['Delete', 'DeleteMarkerCreated'],
  ObjectRestore: ['Post', 'Completed', 'Delete'],
  ObjectTagging: ['Put', 'Delete'],
  ObjectAcl: ['Put'],
  ObjectRetention: ['Put'],
  ObjectAnnotation: ['Put', 'Delete'],
  LifecycleExpiration: ['Delete', 'DeleteMarkerCreated'],
  LifecycleTransition: [],
  IntelligentTiering: [],
  ReducedRedundancyLostObject: [],
  Replication: [
    'OperationFailedReplication',
    'OperationNotTracked',
    'OperationMissedThreshold',
    'OperationReplicatedAfterThreshold',
  ],
};

/** Every event that a rule may name. */
export const eventPatterns: ReadonlySet<string> = new Set(
  Object.entries(kinds).flatMap(([event, each]) =>
    each.length === 0 ? [`s3:${event}`] : [`s3:${event}:*`, ...each.map((kind) => `s3:${event}:${kind}`)],
  ),
);

/** Whether two patterns have an event in common. */
export const eventsMeet = (one: string, other: string): boolean =>
  one === other || isUnder(one, other) || isUnder(other, one);
const isUnder = (pattern: string, name: string): boolean =>
  pattern.endsWith(':*') && name.startsWith(pattern.slice(0, -1));

interface KeyCondition {
  isMet(value: string, key: string): boolean;
  /** Whether a key can meet both values. */
  canMeetBoth(one: string, other: string): boolean;
}

/** A row for each name that a filter rule may have. Where a rule has none of a name its value is '', which every key meets. */
const keyConditions = {
  prefix: {
    isMet: (value, key) => key.startsWith(value),
    canMeetBoth: (one, other) => one.startsWith(other) || other.startsWith(one),
  },
  suffix: {
    isMet: (value, key) => key.endsWith(value),
    canMeetBoth: (one, other) => one.endsWith(other) || other.endsWith(one),
  },
} as const satisfies Readonly<Record<string, KeyCondition>>;

type FilterName = keyof typeof keyConditions;
// The cast: the keys of a literal.
export const filterNames = Object.keys(keyConditions) as readonly FilterName[];

/** The keys that a rule is about. */
export type KeyFilter = Readonly<Record<FilterName, string>>;

export function readKeyFilter({ Filter }: NotificationRule): KeyFilter {
  const named = (name: string): string =>
    Filter?.S3Key?.FilterRule.find(({ Name }) => Name.toLowerCase() === name)?.Value ?? '';
  // The cast: one entry is made of each name.
  return Object.fromEntries(filterNames.map((name) => [name, decoded(named(name))])) as KeyFilter;
}

export const meetsKeyFilter = (filter: KeyFilter, key: string): boolean =>
  filterNames.every((name) => keyConditions[name].isMet(filter[name], key));

/** Whether a key can meet both filters. */
export const keyFiltersOverlap = (one: KeyFilter, other: KeyFilter): boolean =>
  filterNames.every((name) => keyConditions[name].canMeetBoth(one[name], other[name]));

/** The public API requires special characters of a filter to be percent-encoded; a value that does not decode is taken literally. */
function decoded(value: string): string {
  if (!value.includes('%')) return value;
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

const targetArn = /^arn:[a-z0-9-]+:(sqs|sns|lambda):[a-z0-9-]*:([^:]*):(?:function:)?([A-Za-z0-9_-]{1,80})$/;

/** The id of a rule's sink: the last field of its ARN. Undefined when the ARN does not name the rule's service. */
export function findSink({ arn, service }: Pick<TargetedRule, 'arn' | 'service'>): string | undefined {
  const found = targetArn.exec(arn);
  return found?.[1] === service ? found[3] : undefined;
}

/** The account in an ARN of a target; '' where it has none. */
export const accountInArn = (arn: string): string => targetArn.exec(arn)?.[2] ?? '';
