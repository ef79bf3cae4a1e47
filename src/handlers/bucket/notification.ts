/** GetBucketNotificationConfiguration, PutBucketNotificationConfiguration. */

import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { drawId } from '../../domain/common/ids.ts';
import { bucketNotification } from '../../domain/configurations/families.ts';
import {
  eventPatterns,
  eventsMeet,
  filterNames,
  findSink,
  type KeyFilter,
  keyFiltersOverlap,
  listRules,
  type NotificationRule,
  readKeyFilter,
  type TargetedRule,
} from '../../domain/configurations/notification.ts';
import { explainUnserved, refusingTargets } from '../../domain/event-deliveries/served-targets.ts';
import { testEvents } from '../../domain/events/events.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { notificationConfiguration } from '../../protocol/schemas/notification.ts';
import { utf8Length } from '../../request/parameters.ts';
import type { CheckedPart } from '../common/checks.ts';
import { type Configuring, document } from '../common/document.ts';

const idMax = 255;
const filterValueMax = 1024;

function checkRule({ Id = '', Event, Filter }: NotificationRule): void {
  if (Id.length > idMax)
    throw invalidArgument('Id', Id, `Id length should not exceed allowed limit of ${idMax}`);
  for (const event of Event) {
    if (!eventPatterns.has(event))
      throw invalidArgument('Event', event, 'The event is not supported for notifications');
  }
  const names = new Set<string>();
  for (const { Name, Value } of Filter?.S3Key?.FilterRule ?? []) {
    const name = Name.toLowerCase();
    if (!filterNames.some((known) => known === name))
      throw invalidArgument(
        'FilterRule.Name',
        Name,
        `filter rule name must be either ${filterNames.join(' or ')}`,
      );
    if (names.has(name))
      throw invalidArgument(
        'FilterRule.Name',
        Name,
        `Cannot specify more than one ${name} rule in a filter.`,
      );
    if (utf8Length(Value) > filterValueMax)
      throw invalidArgument(
        'FilterRule.Value',
        Value,
        `Size of filter rule value cannot exceed ${filterValueMax} bytes in UTF-8 representation`,
      );
    names.add(name);
  }
}

/** Refuses rules that would send one event to two targets (public API). */
function checkOverlaps(rules: readonly TargetedRule[]): void {
  const seen: { readonly event: string; readonly filter: KeyFilter }[] = [];
  for (const rule of rules) {
    const filter = readKeyFilter(rule);
    const own = [...new Set(rule.Event)].map((event) => ({ event, filter }));
    for (const { event } of own) {
      const met = seen.find(
        (other) => eventsMeet(event, other.event) && keyFiltersOverlap(filter, other.filter),
      );
      if (met !== undefined)
        throw invalidArgument(
          'Event',
          event,
          'Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the prefixes are overlapping for the same event type.',
        );
    }
    seen.push(...own);
  }
}

/** A target must exist, and may take the events of the bucket: which of the two is missing is not for the tenant to know. */
async function checkTargets(
  ctx: Pick<Context, 'config' | 'credentials'>,
  { owner }: Pick<BucketRow, 'owner'>,
  rules: readonly TargetedRule[],
): Promise<void> {
  for (const rule of rules) {
    const { arn } = rule;
    const sink = findSink(rule);
    if (sink === undefined) throw invalidArgument('ARN', arn, 'The ARN is not well formed');
    const target = ctx.config.SVC_NOTIFY_TARGETS.find(({ id }) => id === sink);
    if (target === undefined || (await explainUnserved(ctx, { account: owner, arn, target })) !== undefined)
      throw invalidArgument(arn, 'null', 'Unable to validate the following destination configurations');
  }
}

const listSinks = (rules: readonly TargetedRule[]): ReadonlySet<string> =>
  new Set(rules.map((rule) => findSink(rule) ?? rule.arn));

/** The targets that are asked before the configuration is stored; the others get their test event from the queue. */
function targetsToAsk(
  { config }: Pick<Context, 'config'>,
  { own }: Pick<Configuring, 'own'>,
  rules: readonly TargetedRule[],
): ReadonlySet<string> {
  if (own.get('skip-destination-validation')?.toLowerCase() === 'true') return new Set();
  const named = listSinks(rules);
  const asked = config.SVC_NOTIFY_TARGETS.filter(({ id, validate }) => validate === true && named.has(id));
  return new Set(asked.map(({ id }) => id));
}

/** @throws InvalidArgument naming the ARNs of targets that took no test event */
async function askTargets(ctx: Context, request: Configuring, rules: readonly TargetedRule[]): Promise<void> {
  const asked = targetsToAsk(ctx, request, rules);
  if (asked.size === 0) return;
  const refusing = await refusingTargets(ctx, asked, request);
  const arns = rules.filter((rule) => refusing.includes(findSink(rule) ?? '')).map(({ arn }) => arn);
  if (arns.length > 0)
    throw invalidArgument(
      [...new Set(arns)].join(', '),
      'null',
      'Unable to validate the following destination configurations',
    );
}

const configuration = document({
  family: bucketNotification,
  schema: notificationConfiguration,
  unset: { TopicConfiguration: [], QueueConfiguration: [], CloudFunctionConfiguration: [] },
  isEmpty: (value) => listRules(value).length === 0,
  then: (ctx, request, notification) => {
    const rules = listRules(notification);
    const asked = targetsToAsk(ctx, request, rules);
    const others = [...listSinks(rules)].filter((sink) => !asked.has(sink));
    return testEvents(ctx, others, request);
  },
  validate: async (ctx, request, value) => {
    const { checks } = request;
    await checks.at({ path: 'EventBridgeConfiguration', right: 'absent' }, () => {
      if (value.EventBridgeConfiguration !== undefined)
        throw fail('NotImplemented', 'There is no event bus here: name a queue, a topic or a function.');
    });
    const rules = listRules(value);
    await checks.at({ path: '', right: 'a different Id in each configuration' }, () => {
      const ids = rules.flatMap(({ Id }) => (Id === undefined || Id === '' ? [] : [Id]));
      if (new Set(ids).size < ids.length)
        throw fail('InvalidArgument', 'Same ID used for multiple configurations. IDs must be unique');
    });
    const { TopicConfiguration, QueueConfiguration, CloudFunctionConfiguration } = value;
    const lists = { TopicConfiguration, QueueConfiguration, CloudFunctionConfiguration };
    const parts: CheckedPart[] = Object.entries(lists).flatMap(([name, list]) =>
      list.map((_, index) => ({ path: `${name}[${index}]` })),
    );
    for (const [index, rule] of rules.entries())
      await checks.at(parts[index] ?? { path: '' }, () => checkRule(rule));
    await checks.at({ path: '', right: 'rules of which no key and event match two' }, () =>
      checkOverlaps(rules),
    );
    for (const [index, rule] of rules.entries())
      await checks.at(
        { ...(parts[index] ?? { path: '' }), right: 'the ARN of a target that serves this account' },
        () => checkTargets(ctx, request.bucket, [rule]),
      );
    await checks.at({ path: '', right: 'targets that take a test event' }, () =>
      askTargets(ctx, request, rules),
    );
    // Give an id to configurations without one, as the public service does.
    const identified = <R extends NotificationRule>(rule: R): R => {
      const Id = rule.Id || drawId(ctx.random);
      return Object.assign({ Id }, rule, { Id });
    };
    return {
      TopicConfiguration: value.TopicConfiguration.map(identified),
      QueueConfiguration: value.QueueConfiguration.map(identified),
      CloudFunctionConfiguration: value.CloudFunctionConfiguration.map(identified),
    };
  },
});

export const notification = configuration.configuration;
export const GetBucketNotificationConfiguration = configuration.get;
export const PutBucketNotificationConfiguration = configuration.put;
