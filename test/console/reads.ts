/** What pages ask the operator API, also in batches: for tests that answer in the gateway's place, and that look for refusals. */
import type { Page, Response } from 'playwright-core';

const batchPath = '/admin/v1/batch';

interface Read {
  readonly operation: string;
  readonly path?: Readonly<Record<string, string>>;
}

interface Substitute {
  readonly status?: number;
  readonly json: object;
}

/**
 * Answers an operation without parameters in its path in place of the gateway, whether it is asked for alone or in a batch.
 * @returns how often it was asked for so far, and an end
 */
export async function answerRead(
  page: Page,
  { operation, path }: { readonly operation: string; readonly path: string },
  next: () => Substitute,
): Promise<{ asked(): number; end(): Promise<void> }> {
  let asked = 0;
  const answer = (): Substitute => {
    asked += 1;
    return next();
  };
  const single = `**/admin/v1${path}`;
  await page.route(single, (route) => route.fulfill(answer()));
  await page.route(`**${batchPath}`, async (route) => {
    const { reads } = route.request().postDataJSON() as { readonly reads: readonly Read[] };
    const index = reads.findIndex((read) => read.operation === operation);
    if (index < 0) return route.fallback();
    const reply = await route.fetch();
    const lines = (await reply.text()).split('\n').filter((line) => line !== '');
    const others = lines.filter((line) => (JSON.parse(line) as { readonly index: number }).index !== index);
    const { status = 200, json } = answer();
    const own = JSON.stringify({ index, status, [status < 400 ? 'reply' : 'error']: json });
    return route.fulfill({ response: reply, body: `${[...others, own].join('\n')}\n` });
  });
  return {
    asked: () => asked,
    async end() {
      await page.unroute(single);
      await page.unroute(`**${batchPath}`);
    },
  };
}

/** Holds back the answers of requests whose address or body matches, until it is released. */
export async function holdReads(
  page: Page,
  pattern: RegExp,
): Promise<{ readonly asked: Promise<void>; release(): Promise<void> }> {
  const asked = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const address = '**/admin/v1/**';
  await page.route(address, async (route, request) => {
    if (pattern.test(`${request.url()} ${request.postData() ?? ''}`)) {
      asked.resolve();
      await held.promise;
    }
    await route.fallback();
  });
  return {
    asked: asked.promise,
    async release() {
      held.resolve();
      await page.unroute(address);
    },
  };
}

/** The refused reads of a response, as texts: itself, or the parts of a batch. */
export async function refusalsIn(response: Response): Promise<readonly string[]> {
  const request = response.request();
  const { pathname } = new URL(response.url());
  if (response.status() === 403) return [`${request.method()} ${pathname}`];
  if (pathname !== batchPath) return [];
  const { reads } = request.postDataJSON() as { readonly reads: readonly Read[] };
  // A page that was left does not read the reply to its end.
  const text = await response.text().catch(() => '');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { readonly index: number; readonly status: number })
    .filter(({ status }) => status === 403)
    .map(({ index }) => `${reads[index]?.operation} ${JSON.stringify(reads[index]?.path ?? {})}`);
}
