/**
 * The audits that Lighthouse's category "best practices" weighs, of a page that is open. Lighthouse itself would be 200 packages and 185 MB
 * more to install; its category "accessibility" is axe, which the tests run with more rules. Permissions that a page could ask for at its
 * start are refused by its Permissions-Policy.
 */
import type { CDPSession, Page } from 'playwright-core';

/** Issues of the browser's developer tools that Lighthouse counts. */
const countedIssues = [
  'BlockedByResponseIssue',
  'ContentSecurityPolicyIssue',
  'CookieIssue',
  'CorsIssue',
  'DeprecationIssue',
  'HeavyAdIssue',
  'MixedContentIssue',
];

/** @returns what a page does that it should not, since it was loaded */
export async function badPracticesOf(page: Page): Promise<readonly string[]> {
  const session = await page.context().newCDPSession(page);
  const found = await reportsOf(session);
  await session.detach();
  return [...found, ...(await page.evaluate(findInDocument))];
}

/** What the browser has reported. It sends what it has collected so far before it answers the command. */
async function reportsOf(session: CDPSession): Promise<readonly string[]> {
  const found: string[] = [];
  session.on('Log.entryAdded', ({ entry }) => {
    // What is not set, such as a quota, is a reply of 404. Chromium logs it where no other read is in the same request,
    // which depends on time.
    const isMissing = entry.source === 'network' && /\b404\b/.test(entry.text);
    if (entry.level === 'error' && !isMissing) found.push(`log: ${entry.text} ${entry.url ?? ''}`);
  });
  session.on('Audits.issueAdded', ({ issue }) => {
    if (countedIssues.includes(issue.code)) found.push(`${issue.code}: ${JSON.stringify(issue.details)}`);
  });
  await session.send('Log.enable');
  await session.send('Audits.enable');
  return found;
}

function findInDocument(): string[] {
  const fontMin = 12;
  const found: string[] = [];
  if (document.doctype?.name !== 'html' || document.compatMode !== 'CSS1Compat')
    found.push('the document has no doctype of HTML');
  if (document.characterSet !== 'UTF-8') found.push(`the character set is ${document.characterSet}`);
  const viewport = document.querySelector('meta[name=viewport]')?.getAttribute('content') ?? '';
  if (!viewport.includes('width=')) found.push('the viewport has no width');
  for (const { name } of performance.getEntriesByType('resource'))
    if (new URL(name).origin !== location.origin) found.push(`another origin: ${name}`);
  for (const input of document.querySelectorAll('input, textarea'))
    if (!input.dispatchEvent(new ClipboardEvent('paste', { bubbles: true, cancelable: true })))
      found.push(`nothing can be pasted into ${input.outerHTML}`);
  for (const image of document.images)
    if (Math.abs(image.width / image.height - image.naturalWidth / image.naturalHeight) > 0.05)
      found.push(`the sides of an image have another ratio: ${image.outerHTML}`);
  for (const element of document.body.querySelectorAll('*')) {
    const hasText = [...element.childNodes].some(
      ({ nodeType, textContent }) => nodeType === Node.TEXT_NODE && textContent?.trim() !== '',
    );
    const size = Number.parseFloat(getComputedStyle(element).fontSize);
    if (hasText && size < fontMin) found.push(`${size} px are too small: ${element.textContent}`);
  }
  return found;
}

/** Tables with columns outside of the picture, by width; the matrix of durations may scroll. */
export async function tablesBeyond(
  page: Page,
  atWidths: readonly number[],
): Promise<Readonly<Record<number, readonly string[]>>> {
  const found: Record<number, readonly string[]> = {};
  for (const width of atWidths) {
    await page.setViewportSize({ width, height: 900 });
    const beyond = await page.evaluate(() =>
      [...document.querySelectorAll('.table-region:not(.matrix .table-region)')]
        .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
        .map((region) => `${region.getAttribute('aria-label')}: ${region.scrollWidth} px`),
    );
    if (beyond.length > 0) found[width] = beyond;
  }
  return found;
}
