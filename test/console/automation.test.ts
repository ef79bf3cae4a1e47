/** What a bucket does by itself, and the targets that its events go to, in Chromium. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openWebhookSink, status, type WebhookSink } from '../support/webhook-sink.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

describe.skipIf(noChromium !== undefined)('what buckets do by themselves', () => {
  let sink: WebhookSink;
  let world: ConsoleWorld;
  beforeAll(async () => {
    sink = await openWebhookSink();
    world = await openConsole({
      env: {
        SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'hook', type: 'webhook', url: sink.url, accounts: ['*'] }]),
        SVC_EGRESS_ALLOW: '127.0.0.0/8',
      },
    });
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    await sink[Symbol.asyncDispose]();
  });

  test('a target of events is tested in two steps, and its answer is shown', async () => {
    sink.answer = status(500);
    await using tab = await world.open('/events');
    const { page } = tab;
    await page.getByRole('button', { name: 'Test of hook' }).click();
    const dialog = page.getByRole('dialog', { name: 'Test of hook' });
    await dialog.getByText('not taken').waitFor();
    await dialog.getByText('the sink answered 500').waitFor();
    expect(await tab.axe()).toEqual([]);
    sink.answer = status(200);
    await dialog.getByRole('button', { name: 'Send another' }).click();
    await dialog.getByText('The target acknowledged the test event.').waitFor();
    expect(sink.received.map(({ body }) => JSON.parse(body).Event)).toEqual(['s3:TestEvent', 's3:TestEvent']);
  });
});
