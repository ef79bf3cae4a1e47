/** The error page of a website whose owner has not made one (public API "Website endpoints"). */
import { escapeText } from '../formats/xml.ts';

export interface HtmlError {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly elements: Readonly<Record<string, string | number>>;
  readonly requestId: string;
}

const reasons: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  412: 'Precondition Failed',
  416: 'Requested Range Not Satisfiable',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
};

/** Everything but the frame is escaped, because keys and addresses come from clients. */
export function htmlError({ status, code, message, elements, requestId }: HtmlError): string {
  const title = `${status} ${reasons[status] ?? 'Error'}`;
  const errorFields = { Code: code, Message: message, ...elements, RequestId: requestId, HostId: requestId };
  const items = Object.entries(errorFields).map(
    ([name, value]) => `<li>${escapeText(name)}: ${escapeText(String(value))}</li>`,
  );
  return [
    '<html>',
    `<head><title>${title}</title></head>`,
    '<body>',
    `<h1>${title}</h1>`,
    '<ul>',
    ...items,
    '</ul>',
    '<hr/>',
    '</body>',
    '</html>',
    '',
  ].join('\n');
}
