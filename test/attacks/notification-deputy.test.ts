/** Targets of notifications take events of the accounts that the operator lists, and ARNs name no other account. */
import { describe, expect, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { deliverNotifications } from '../../src/workers/deliveries.ts';
import { operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts';

interface Target {
  readonly id: string;
  readonly url: string;
  readonly accounts?: readonly string[];
}

const open = (targets: readonly Target[]): Promise<GatewayWorld> =>
  openGateway({
    settings: {
      SVC_NOTIFY_TARGETS: JSON.stringify(targets.map((target) => ({ type: 'webhook', ...target }))),
      SVC_EGRESS_ALLOW: '127.0.0.0/8',
      SVC_NOTIFY_INTERVAL: '10ms',
    },
  });

const putRule = (client: Client, bucket: string, arn: string): Promise<Answer> =>
  client.put(`/${bucket}?notification`, {
    body: `<NotificationConfiguration><QueueConfiguration><Event>s3:ObjectCreated:*</Event><Queue>${arn}</Queue></QueueConfiguration></NotificationConfiguration>`,
  });
const arnOf = (id: string, account = ''): string => `arn:aws:sqs:default:${account}:${id}`;
const isRefused = (answer: Answer): void => {
  expect([answer.status, answer.code], answer.text).toEqual([400, 'InvalidArgument']);
  expect(answer.text).toContain('Unable to validate the following destination configurations');
};

/** Runs the worker with other targets than those under which the events were queued. */
async function deliver(
  context: Context,
  accounts: Readonly<Record<string, readonly string[]>>,
  until: () => Promise<void>,
): Promise<void> {
  const targets = context.config.SVC_NOTIFY_TARGETS.map((target) => ({
    ...target,
    accounts: accounts[target.id] ?? [],
  }));
  const changed = { ...context, config: { ...context.config, SVC_NOTIFY_TARGETS: targets } };
  const stop = new AbortController();
  const ended = deliverNotifications(changed)(stop.signal);
  try {
    await vi.waitFor(until, { timeout: 60_000, interval: 20 });
  } finally {
    stop.abort();
    await ended.catch(() => undefined);
  }
}

const lettersOf = async (world: GatewayWorld): Promise<readonly { error: string; target: string }[]> =>
  (await operatorOf(world).must('GET', '/notify/dead-letters'))['rows'] as [];
const keysAt = (sink: WebhookSink): readonly string[] =>
  sink.received.flatMap(({ body }) => {
    const { Records = [] } = JSON.parse(String(body)) as { Records?: { s3: { object: { key: string } } }[] };
    return Records.map(({ s3 }) => s3.object.key);
  });

describe('PutBucketNotificationConfiguration', () => {
  test('takes targets that serve the account of the bucket, and tells tenants nothing about the others', async () => {
    const url = 'https://example.com/hook';
    await using world = await open([
      { id: 'bare', url },
      { id: 'alices', url, accounts: ['alice-account'] },
      { id: 'all', url, accounts: ['*'] },
      { id: 'none', url, accounts: [] },
    ]);
    await world.client.put('/bucket');
    await world.bob.put('/bobs');
    for (const id of ['bare', 'alices', 'none', 'missing'])
      isRefused(await putRule(world.bob, 'bobs', arnOf(id)));
    expect((await putRule(world.bob, 'bobs', arnOf('all'))).status).toBe(200);
    for (const id of ['bare', 'none']) isRefused(await putRule(world.client, 'bucket', arnOf(id)));
    expect((await putRule(world.client, 'bucket', arnOf('alices'))).status).toBe(200);
  });

  test('refuses the ARN of another account', async () => {
    await using world = await open([{ id: 'all', url: 'https://example.com/hook', accounts: ['*'] }]);
    await world.bob.put('/bobs');
    isRefused(await putRule(world.bob, 'bobs', arnOf('all', 'alice-account')));
    for (const account of ['', 'bob-account', '123456789012'])
      expect((await putRule(world.bob, 'bobs', arnOf('all', account))).status).toBe(200);
  });

  test('takes a target without accounts where there is one account', async () => {
    await using world = await openGateway({
      settings: {
        SVC_NOTIFY_TARGETS: '[{"id": "bare", "type": "webhook", "url": "https://example.com/hook"}]',
      },
      wrap: (context) => ({
        ...context,
        credentials: {
          ...context.credentials,
          soleAccount: 'alice-account',
        },
      }),
    });
    await world.client.put('/bucket');
    expect((await putRule(world.client, 'bucket', arnOf('bare', '123456789012'))).status).toBe(200);
  });
});

describe('an event that waits', () => {
  test('becomes a dead letter with the reason when its target no longer serves the account, and delays no other', async () => {
    await using sink = await openWebhookSink();
    await using world = await open([{ id: 'shared', url: sink.url, accounts: ['*'] }]);
    await world.client.put('/bucket');
    await world.bob.put('/bobs');
    await putRule(world.client, 'bucket', arnOf('shared'));
    await putRule(world.bob, 'bobs', arnOf('shared'));
    await world.bob.put('/bobs/secret', { body: 'x' });
    await world.client.put('/bucket/mine', { body: 'x' });
    await deliver(world.context, { shared: ['alice-account'] }, async () => {
      expect(keysAt(sink)).toEqual(['mine']);
      const letters = await lettersOf(world);
      // The test event, and the event.
      expect(letters).toHaveLength(2);
      for (const { error } of letters) expect(error).toContain('does not serve account bob-account');
    });
  });

  test('is refused when the bucket of the rule has another owner since', async () => {
    await using sink = await openWebhookSink();
    await using world = await open([{ id: 'shared', url: sink.url, accounts: ['*'] }]);
    await world.client.put('/bucket');
    await putRule(world.client, 'bucket', arnOf('shared', 'alice-account'));
    await operatorOf(world).must('PUT', '/buckets/bucket/owner', { owner: 'bob-account' });
    await world.bob.put('/bucket/secret', { body: 'x' });
    await deliver(world.context, { shared: ['*'] }, async () => {
      const [letter, ...others] = await lettersOf(world);
      expect(others).toEqual([]);
      expect(letter?.error).toContain('is of account alice-account');
    });
    expect(keysAt(sink)).toEqual([]);
  });
});
