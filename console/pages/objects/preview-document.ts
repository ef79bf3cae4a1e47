/**
 * What the sandboxed frame of a preview shows: a document without scripts, built from texts that are escaped. Its frame
 * has an opaque origin and may run nothing, so that a mistake here, or one of the browser's decoders, does not reach
 * the page.
 */
import { escapeXml } from '../../storage/xml.ts';
import { visible } from './listing.ts';

export type Cells = readonly (readonly string[])[];

/** Characters that a text has between its lines stay; those that deceive are shown. */
const shown = (text: string): string =>
  escapeXml(
    text
      .split(/(\r?\n|\t)/)
      .map((part) => (/^(?:\r?\n|\t)$/.test(part) ? part : visible(part)))
      .join(''),
  );

const row = (cells: readonly string[], tag: 'td' | 'th'): string =>
  `<tr>${cells.map((cell) => `<${tag} dir="auto">${shown(cell)}</${tag}>`).join('')}</tr>`;

export const imageBody = (url: string): string => `<img class="media" alt="" src="${escapeXml(url)}">`;
export const mediaBody = (tag: 'video' | 'audio', url: string): string =>
  `<${tag} class="media" controls preload="metadata" src="${escapeXml(url)}"></${tag}>`;
export const textBody = (text: string): string => `<pre dir="auto">${shown(text)}</pre>`;
export const tableBody = (head: readonly string[], rows: Cells): string =>
  `<table><thead>${row(head, 'th')}</thead><tbody>${rows.map((each) => row(each, 'td')).join('')}</tbody></table>`;

/** The policy of the page is the frame's too: a sheet needs the nonce, and may then come from a `data:` address. */
const nonce = (): string => document.querySelector('script')?.nonce ?? '';

const sheet = (): string => {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return [
    `:root{color-scheme:${style.colorScheme}}`,
    `body{margin:0;background:${colour('card')};color:${colour('text')};font:14px/20px system-ui,sans-serif}`,
    `body:focus-visible{outline:2px solid ${colour('accent')};outline-offset:-2px}`,
    '.media{display:block;margin:auto;max-width:100%;max-height:100vh}',
    'pre{margin:0;padding:12px;font:13px/20px ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}',
    'table{border-collapse:collapse;font-variant-numeric:tabular-nums}',
    `th,td{padding:6px 12px;border-bottom:1px solid ${colour('line')};text-align:start;white-space:pre;max-width:320px;overflow:hidden;text-overflow:ellipsis}`,
    `th{position:sticky;top:0;background:${colour('card')};color:${colour('quiet')};font-weight:500}`,
  ].join('');
};

/** @returns an address, to be revoked */
export function documentUrl(body: string): string {
  const link = `<link rel="stylesheet" nonce="${escapeXml(nonce())}" href="data:text/css,${encodeURIComponent(sheet())}">`;
  // The keyboard scrolls what has the focus, and this document has nothing else that could get it.
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><title>.</title>${link}<body tabindex="0">${body}`;
  return URL.createObjectURL(new Blob([html], { type: 'text/html' }));
}

export const csvRowsMax = 100;

/** The first rows of a text with separators, quoted as RFC 4180 says. The last row is left out where the text is cut. */
export function readCsv(text: string, { isCut }: { readonly isCut: boolean }): Cells {
  const [line = ''] = text.split('\n', 1);
  const separator = [',', ';', '\t'].toSorted(
    (one, other) => line.split(other).length - line.split(one).length,
  )[0];
  const rows: string[][] = [[]];
  let cell = '';
  let isQuoted = false;
  const endCell = () => {
    rows.at(-1)?.push(cell);
    cell = '';
  };
  for (let at = 0; at < text.length && rows.length <= csvRowsMax + 1; at += 1) {
    const char = text[at] ?? '';
    if (isQuoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') {
        cell += char;
        at += 1;
      } else isQuoted = false;
    } else if (char === '"' && cell === '') isQuoted = true;
    else if (char === separator) endCell();
    else if (char === '\n') {
      endCell();
      rows.push([]);
    } else if (char !== '\r') cell += char;
  }
  if (cell !== '' || (rows.at(-1)?.length ?? 0) > 0) endCell();
  const complete = isCut ? rows.slice(0, -1) : rows.filter((each) => each.length > 0);
  return complete.slice(0, csvRowsMax + 1);
}
