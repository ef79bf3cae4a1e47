/** A page that stays open, by the clock of its browser: what it asks for while it is idle. */
import type { Page, Request } from 'playwright-core';

const stepSeconds = 5;

export interface Asked {
  readonly requests: number;
  /** Of the bodies of the replies. */
  readonly bytes: number;
}

/**
 * The page's clock belongs to the test from its next load on, and the page counts its open requests. Events of the browser about requests
 * do not serve for that: on a loaded machine they arrive after the answer of the call in which the page began them.
 */
export async function installTime(page: Page): Promise<void> {
  await page.clock.install();
  await page.addInitScript(() => {
    const { fetch } = globalThis;
    const pending = { openRequests: 0 };
    Object.assign(globalThis, {
      pending,
      fetch: async (...args: Parameters<typeof fetch>): Promise<Response> => {
        pending.openRequests += 1;
        try {
          return await fetch(...args);
        } finally {
          pending.openRequests -= 1;
        }
      },
    });
  });
}

const isWaiting = (page: Page): Promise<boolean> =>
  page.evaluate(
    () => (globalThis as unknown as { pending: { openRequests: number } }).pending.openRequests > 0,
  );

/**
 * Lets so much time of a page with `installTime` pass, in steps that let each poll end: one that is under way would
 * take the place of the next.
 */
export async function passTime(page: Page, seconds: number): Promise<Asked> {
  let requests = 0;
  let bytes = 0;
  let ended = 0;
  const begin = (): void => {
    requests += 1;
  };
  const end = async (request: Request): Promise<void> => {
    bytes += await request.sizes().then(
      ({ responseBodySize }) => responseBodySize,
      () => 0,
    );
    ended += 1;
  };
  page.on('request', begin).on('requestfinished', end).on('requestfailed', end);
  for (let second = 0; second < seconds; second += stepSeconds) {
    await page.clock.runFor(stepSeconds * 1000);
    while ((await isWaiting(page)) || ended < requests)
      await new Promise((resolve) => setTimeout(resolve, 5));
    // What came with a reply is shown, and the next poll is set.
    await page.evaluate(() => document.title);
  }
  page.off('request', begin).off('requestfinished', end).off('requestfailed', end);
  return { requests, bytes };
}
