/** A page that stays open, by the clock of its browser: what it asks for while it is idle. */
import type { Page, Request } from 'playwright-core';

const stepSeconds = 5;

export interface Asked {
  readonly requests: number;
  /** Of the bodies of the replies. */
  readonly bytes: number;
}

/** Lets so much time of the page pass, in steps that let each poll end: one that is under way would take the place of the next. */
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
    while (ended < requests) await new Promise((resolve) => setTimeout(resolve, 5));
    // What came with a reply is shown, and the next poll is set.
    await page.evaluate(() => document.title);
  }
  page.off('request', begin).off('requestfinished', end).off('requestfailed', end);
  return { requests, bytes };
}
