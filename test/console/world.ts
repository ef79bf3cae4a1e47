/**
 * A gateway as an operator starts it, and Debian's Chromium that is logged in. A page that logs an error, throws, or breaks the content
 * security policy fails its test when it is closed.
 *
 * ```ts
 * await using world = await openConsole();
 * await using tab = await world.open('/storage');
 * await tab.page.getByRole('heading', { name: 'Storage' }).waitFor();
 * ```
 */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { type StartOptions, startServer, type TestServer, testCredentials } from '../support/server.ts';
import { onEngines } from './on-engines.ts';

/** The shell without windows takes a quarter less CPU than the whole browser. `.ci/run` installs it. */
const installed = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
export const executablePath = process.env['CHROMIUM'] ?? installed.find((path) => existsSync(path)) ?? '';

/** For `describe.skipIf`. */
export const noChromium = existsSync(executablePath) ? undefined : `there is none of ${installed.join(', ')}`;

export const widths = { phone: 360, tablet: 768, desktop: 1440 } as const;
export type Width = keyof typeof widths;
export type Scheme = 'light' | 'dark';

export interface Pair {
  readonly accessKey: string;
  readonly secretKey: string;
}

export interface OpenOptions {
  /** The key that logs in; `undefined`: none. Default: the operator's. */
  readonly as?: Pair | undefined;
  readonly width?: Width;
  readonly scheme?: Scheme;
  readonly locale?: string;
  /** Default: that of the machine. */
  readonly timezoneId?: string;
  /** The tab shares cookies and storage with this one. */
  readonly beside?: Tab;
  /** The origin of a proxy before the gateway. */
  readonly at?: string;
}

export interface Tab extends AsyncDisposable {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What the page logged as an error, threw, or tried against its policy. A test that provokes one empties the list. */
  readonly problems: string[];
  /** Opens another address of the console, and waits until the page has settled. */
  go(path: string): Promise<void>;
  /** The violations of axe, as texts: of all its rules, or of these. */
  axe(rules?: readonly string[]): Promise<readonly string[]>;
}

export interface Browsing extends AsyncDisposable {
  /** @param path below `/console` */
  open(path?: string, options?: OpenOptions): Promise<Tab>;
}

export interface ConsoleWorld extends Browsing {
  readonly server: TestServer;
}

const launchArguments = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'];
/** A machine that others use may take a hundred times its usual time. */
const patienceMs = 60_000;

/** Chromium at a gateway that the test has started. @param url with the path below which the gateway is mounted */
export async function browse(url: string): Promise<Browsing> {
  const browser = await chromium.launch({ executablePath, args: launchArguments });
  return {
    open: (path = '/', open = {}) => openTab(browser, open.at ?? url, path, open),
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

export async function openConsole(options: StartOptions = {}): Promise<ConsoleWorld> {
  const server = await startServer(onEngines(options));
  const { open, [Symbol.asyncDispose]: close } = await browse(server.url);
  return {
    server,
    open,
    [Symbol.asyncDispose]: async () => {
      await close();
      await server.stop();
    },
  };
}

async function openTab(browser: Browser, url: string, path: string, options: OpenOptions): Promise<Tab> {
  const { width = 'desktop', scheme = 'light', locale = 'en-US', timezoneId, beside } = options;
  const context =
    beside?.context ??
    (await browser.newContext({
      viewport: { width: widths[width], height: 900 },
      colorScheme: scheme,
      locale,
      ...(timezoneId === undefined ? {} : { timezoneId }),
      // Pictures and waits do not depend on animations.
      reducedMotion: 'reduce',
    }));
  context.setDefaultTimeout(patienceMs);
  const who = 'as' in options ? options.as : testCredentials.root;
  if (who !== undefined && beside === undefined) await logIn(context, url, who);
  const page = await context.newPage();
  const problems = watch(page);
  const tab: Tab = {
    page,
    context,
    problems,
    async go(to) {
      await page.goto(`${url}/console${to}`);
      await settled(page);
    },
    axe: (rules) => violations(page, rules),
    [Symbol.asyncDispose]: async () => {
      // A poll that the test answers may be under way: its answer fails when the page closes.
      if (!page.isClosed()) await page.unrouteAll({ behavior: 'ignoreErrors' });
      if (beside === undefined) await context.close();
      else await page.close();
      if (problems.length > 0) throw new Error(`the page had problems:\n${problems.join('\n')}`);
    },
  };
  await tab.go(path);
  return tab;
}

/** Without the form, which has tests of its own. */
async function logIn(context: BrowserContext, url: string, { accessKey, secretKey }: Pair): Promise<void> {
  const reply = await context.request.post(`${url}/admin/v1/session`, { data: { accessKey, secretKey } });
  if (!reply.ok()) throw new Error(`the log-in failed: ${reply.status()} ${await reply.text()}`);
}

function watch(page: Page): string[] {
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(`thrown: ${error.message}`));
  page.on('console', (message) => {
    // Chromium logs every refused request; pages show refusals themselves.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text()))
      problems.push(`logged: ${message.text()}`);
  });
  return problems;
}

/** By the form, which a tab shows that was opened `as: undefined`. */
export async function fillLogin({ page }: Tab, { accessKey, secretKey }: Pair): Promise<void> {
  await page.getByLabel('Access key').fill(accessKey);
  await page.getByLabel('Secret key').fill(secretKey);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/** Nothing is loaded any more, and no skeleton is shown. */
export async function settled(page: Page): Promise<void> {
  await page.waitForLoadState('networkidle');
  await page.waitForFunction(
    () => document.querySelector('h1') !== null && document.querySelector('.skeleton, .boot') === null,
  );
}

async function violations(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  // The policy of the page forbids to evaluate texts; the debugger may.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source);
  const found = await page.evaluate(async (names) => {
    const { axe: run } = globalThis as unknown as { readonly axe: typeof import('axe-core') };
    // What follows a change of the width, such as the rows of a virtual list, has been drawn.
    for (let frame = 0; frame < 2; frame += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
    const { violations } = await run.run(document, {
      resultTypes: ['violations'],
      ...(names === undefined ? {} : { runOnly: { type: 'rule', values: [...names] } }),
    });
    return violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`).join(' | ')}`,
    );
  }, rules);
  return found;
}
