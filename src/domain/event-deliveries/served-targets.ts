/**
 * Whether a target may take the events of a bucket: the operator's target serves the account of the bucket, and the ARN
 * of the rule names no other account. Checked when a configuration is stored and at each delivery, because targets and
 * owners change.
 */

import { inParallel } from '../../base/concurrency.ts';
import type { NotifyTarget } from '../../config/notify-targets.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { type HourlyRow, notifyTask } from '../../metadata/records/queues.ts';
import type { SinkFailure } from '../../ports/event-sink.ts';
import { accountInArn } from '../configurations/notification.ts';
import { readSubject } from '../events/envelope.ts';
import { type NewConfiguration, testEvent } from '../events/events.ts';

type Ctx = Pick<Context, 'credentials' | 'metadata'> & {
  readonly config: Pick<Config, 'SVC_NOTIFY_TARGETS'>;
};

interface Sending {
  /** Of the bucket; undefined where it is not known. */
  readonly account: string | undefined;
  readonly arn: string;
  readonly target: NotifyTarget;
}

/**
 * A target without a list serves the only account of the settings, and no account where there are several: else any
 * tenant could name the operator's targets.
 */
const serves = (
  accounts: readonly string[] | undefined,
  { account, sole }: { readonly account: string | undefined; readonly sole: string | undefined },
): boolean =>
  accounts === undefined
    ? sole !== undefined && (account ?? sole) === sole
    : accounts.includes('*') || (account !== undefined && accounts.includes(account));

/** @returns why not; undefined where it may */
export async function explainUnserved(
  { credentials }: Pick<Ctx, 'credentials'>,
  { account, arn, target }: Sending,
): Promise<string | undefined> {
  const sole = credentials.soleAccount;
  if (!serves(target.accounts, { account, sole }))
    return `the target ${target.id} does not serve account ${account ?? '(unknown)'}: see \`accounts\` in SVC_NOTIFY_TARGETS`;
  const named = accountInArn(arn);
  // An id that no account here has is a placeholder, because clients want one in an ARN.
  const isOthers =
    named !== '' && named !== account && (await credentials.account({ owner: named })) !== undefined;
  return isOthers ? `the ARN ${arn} is of account ${named}, and the bucket of ${account}` : undefined;
}

/** @returns the rows that may be delivered, and the others with the reason of each. A target that left the settings keeps its rows. */
export async function splitServed(
  ctx: Ctx,
  rows: readonly HourlyRow[],
): Promise<{
  readonly served: readonly HourlyRow[];
  readonly refused: readonly (readonly [HourlyRow, string])[];
}> {
  const targets = new Map(ctx.config.SVC_NOTIFY_TARGETS.map((target) => [target.id, target]));
  const served: HourlyRow[] = [];
  const refused: (readonly [HourlyRow, string])[] = [];
  for (const row of rows) {
    const { sink, account, arn = '', message } = notifyTask(row);
    const target = targets.get(sink);
    // Rows of older builds name the bucket only.
    const owner = account ?? (await findBucket(ctx.metadata, readSubject(message).bucket))?.row.owner;
    const why = target && (await explainUnserved(ctx, { account: owner, arn, target }));
    if (why === undefined) served.push(row);
    else refused.push([row, why]);
  }
  return { served, refused };
}

// Asks targets to take a test event: before a configuration that names them is stored, and for an operator.

type ValidateTargetsCtx = Pick<Context, 'clock' | 'telemetry' | 'sinks'>;

const deliveriesMax = 4;

interface TestMessage {
  readonly requestId: string;
  /** What messages are ordered by: the bucket, or the test itself where it is about none. */
  readonly subject: string;
  /** The account of the bucket; '' for an operator. */
  readonly owner: string;
  readonly message: object;
  readonly signal: AbortSignal;
}

/** Delivers a test event at once, beside the queue. @returns why the target did not take it; undefined where it did */
export async function sendTestEvent(
  { sinks }: Pick<Context, 'sinks'>,
  target: string,
  { requestId, subject, owner, message, signal }: TestMessage,
): Promise<SinkFailure | undefined> {
  const sink = (await sinks?.open(target)) ?? 'this process has no sinks';
  if (typeof sink === 'string') return { kind: 'unavailable', error: sink };
  const sent = {
    id: `${requestId}/test/${target}`,
    subject,
    owner,
    body: JSON.stringify(message),
    contentType: 'application/json',
  };
  return (await sink.deliver([sent], signal)).failure;
}

/** @returns the targets that did not take it; the log has the reasons, which are for operators */
export async function refusingTargets(
  ctx: ValidateTargetsCtx,
  targets: Iterable<string>,
  { bucket, requestId, signal }: NewConfiguration & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const message = testEvent(ctx, { bucket: bucket.name, requestId });
  const refusing: string[] = [];
  await inParallel(deliveriesMax, [...targets], async (target) => {
    const asked = { requestId, subject: bucket.name, owner: bucket.owner, message, signal };
    const failure = await sendTestEvent(ctx, target, asked);
    if (failure === undefined) return;
    refusing.push(target);
    const about = { target, bucket: bucket.name, error: failure.error, request_id: requestId };
    const said = 'a target did not take the test event; the configuration is not stored';
    ctx.telemetry.log('WARN', said, about, target, bucket.owner);
  });
  return refusing;
}
