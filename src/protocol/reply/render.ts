/** The last step of every request: bare header names take their prefix, refusals become XML, JSON or HTML. */
import type { Refusal, RefusalDetails } from '../../errors/refusal.ts';
import { amz, type Dialect, store } from '../dialect.ts';
import { errorCatalogue } from '../errors.ts';
import { writeXml } from '../formats/codec.ts';
import { parseableText } from '../formats/xml.ts';
import { errorBody } from '../schemas/error.ts';
import { type ActionService, actionError } from './action-errors.ts';
import { htmlError } from './html-error.ts';
import type { Reply } from './reply.ts';

type HeaderPair = readonly [string, string];

/** `*-version-id` becomes the dialect's; a request that showed no dialect gets both. */
export function renderHeaders(headers: readonly HeaderPair[], dialect: Dialect | undefined): HeaderPair[] {
  const rendered: HeaderPair[] = [];
  for (const pair of headers) {
    const [name, value] = pair;
    if (!name.startsWith('*-')) rendered.push(pair);
    else if (dialect !== undefined) rendered.push([dialect.headerPrefix + name.slice(2), value]);
    else
      rendered.push([amz.headerPrefix + name.slice(2), value], [store.headerPrefix + name.slice(2), value]);
  }
  return rendered;
}

export interface Failed {
  readonly requestId: string;
  /** The path of the request. */
  readonly resource: string;
  readonly isHead: boolean;
  readonly format: ErrorFormat;
}

/**
 * The format of errors: XML for the storage protocol, JSON for the operator API, a different XML for IAM and STS, HTML for websites.
 */
export type ErrorFormat = 'xml' | 'json' | 'html' | ActionService;

/** The details of an error in JSON: the wrong field, and the elements that the storage protocol shows too, by names in camelCase. */
function toDetails({ field, elements = {} }: RefusalDetails): Readonly<Record<string, string | number>> {
  const { ArgumentName: argument, ArgumentValue: _, ...rest } = elements;
  const named = field ?? argument;
  return {
    ...(named === undefined ? {} : { field: named }),
    ...Object.fromEntries(
      Object.entries(rest).map(([name, value]) => [name.charAt(0).toLowerCase() + name.slice(1), value]),
    ),
  };
}

export function renderRefusal(
  { code, details }: Refusal,
  { requestId, resource, isHead, format }: Failed,
): Reply {
  const { status, message, retryAfter = undefined } = errorCatalogue[code];
  const wait = details.retryAfter ?? retryAfter;
  const headers: HeaderPair[] = Object.entries(details.headers ?? {});
  if (wait !== undefined) headers.push(['Retry-After', String(wait)]);
  if (format === 'html') headers.push(['*-error-code', code], ['*-error-message', message]);
  if (isHead) return { status, headers };
  if (format === 'iam' || format === 'sts' || format === 's3') {
    const error = actionError(code, { message: details.message, requestId, service: format });
    return { ...error, headers: [['Content-Type', 'text/xml'], ...headers] };
  }
  const text = details.message ?? message;
  if (format === 'json') {
    const body = JSON.stringify({ code, message: text, request_id: requestId, details: toDetails(details) });
    return { status, headers: [['Content-Type', 'application/json'], ...headers], body };
  }
  const elements = details.elements ?? {};
  if (format === 'html') {
    const body = htmlError({ status, code, message: text, elements, requestId });
    return { status, headers: [['Content-Type', 'text/html; charset=utf-8'], ...headers], body };
  }
  const body = writeXml(
    errorBody,
    'Error',
    {
      Code: code,
      Message: parseableText(text),
      elements: Object.fromEntries(
        Object.entries(elements).map(([name, value]) => [
          name,
          typeof value === 'string' ? parseableText(value) : value,
        ]),
      ),
      Resource: parseableText(resource),
      RequestId: requestId,
      HostId: requestId,
    },
    { namespace: '' },
  );
  return { status, headers: [['Content-Type', 'application/xml'], ...headers], body };
}
