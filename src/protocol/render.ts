/** The last step of every request: bare header names take their prefix, refusals become XML, JSON or HTML. */
import type { ErrorCode, Refusal, RefusalDetails } from '../base/errors.ts';
import { amz, type Dialect, store } from './dialect.ts';
import { type ErrorEntry, errorCatalogue } from './errors.ts';
import {
  element,
  escapeText,
  optional,
  parseableText,
  rest,
  text,
  token,
  writeXml,
} from './formats/codec.ts';
import type { Reply } from './reply.ts';

type HeaderPair = readonly [string, string];

export const isStream = (body: Reply['body']): body is AsyncIterable<Uint8Array> =>
  typeof body === 'object' && Symbol.asyncIterator in body;

/** `*-version-id` becomes the dialect's; a request that showed no dialect gets both. */
export function renderHeaders(headers: readonly HeaderPair[], dialect: Dialect | undefined): HeaderPair[] {
  return dialect === undefined
    ? headers.flatMap((pair) => (isOwn(pair) ? [withPrefix(pair, amz), withPrefix(pair, store)] : [pair]))
    : headers.map((pair) => (isOwn(pair) ? withPrefix(pair, dialect) : pair));
}

const isOwn = ([name]: HeaderPair): boolean => name.startsWith('*-');
const withPrefix = ([name, value]: HeaderPair, { headerPrefix }: Dialect): HeaderPair => [
  headerPrefix + name.slice(2),
  value,
];

interface Failed {
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

/** The headers and elements of a refusal for a delete marker: one that the request named also says what can be done with it. */
function describeMarker(code: ErrorCode, details: RefusalDetails): RefusalDetails {
  const { deleteMarker: marker, elements } = details;
  if (marker === undefined) return details;
  const headers = { '*-delete-marker': 'true', '*-version-id': marker.versionId };
  if (code !== 'MethodNotAllowed') return { ...details, headers };
  return {
    ...details,
    elements: { Method: 'GET', ResourceType: 'DeleteMarker', ...elements },
    headers: { ...headers, Allow: 'DELETE', 'Last-Modified': new Date(marker.modified).toUTCString() },
  };
}

export function renderRefusal(
  { code, details: known }: Refusal,
  { requestId, resource, isHead, format }: Failed,
): Reply {
  const details = describeMarker(code, known);
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

// The error page of a website whose owner has not made one (public API "Website endpoints").

interface HtmlError {
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
function htmlError({ status, code, message, elements, requestId }: HtmlError): string {
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

// Refusals in the form of the public IAM and STS APIs: a different XML document, and other names of a few codes.

type ActionService = 'iam' | 'sts' | 's3';

/** The service of a policy action. */
export const actionService = (action: string): ActionService =>
  action.startsWith('sts:') ? 'sts' : action.startsWith('iam:') ? 'iam' : 's3';

export const actionNamespaces: Readonly<Record<ActionService, string>> = {
  iam: 'https://iam.amazonaws.com/doc/2010-05-08/',
  sts: 'https://sts.amazonaws.com/doc/2011-06-15/',
  s3: 'http://awss3control.amazonaws.com/doc/2018-08-20/',
};

interface Renamed extends Partial<Pick<ErrorEntry, 'status' | 'message'>> {
  readonly code?: string;
}
const unknownCaller = {
  code: 'InvalidClientTokenId',
  status: 403,
  message: 'The security token included in the request is invalid.',
};

/** Codes that IAM and STS call differently; a message replaces that of the refusal, which is about storage. */
const renamed: { readonly [C in ErrorCode]?: Renamed } = {
  AuthorizationHeaderMalformed: { code: 'IncompleteSignature' },
  AuthorizationQueryParametersError: { code: 'IncompleteSignature' },
  InternalError: { code: 'InternalFailure' },
  InvalidAccessKeyId: unknownCaller,
  InvalidToken: unknownCaller,
  InvalidURI: { code: 'MalformedQueryString' },
  MalformedPolicy: { code: 'MalformedPolicyDocument' },
  OperationAborted: { code: 'ConcurrentModification' },
  SlowDown: { code: 'Throttling', status: 400 },
  XAmzContentSHA256Mismatch: { code: 'SignatureDoesNotMatch', status: 403 },
};

const errorResponse = element({
  Error: element({ Type: token, Code: token, Message: text }),
  RequestId: token,
});

/** @param message the text of the refusal, where it is more specific than the catalogue's */
function actionError(
  code: ErrorCode,
  {
    message,
    requestId,
    service,
  }: { readonly message: string | undefined; readonly requestId: string; readonly service: ActionService },
): { readonly status: number; readonly body: string } {
  const entry = errorCatalogue[code];
  const other = (service === 's3' ? undefined : renamed[code]) ?? {};
  const status = other.status ?? entry.status;
  const error = {
    Type: status < 500 ? 'Sender' : 'Receiver',
    Code: other.code ?? code,
    Message: parseableText(other.message ?? message ?? entry.message),
  };
  const namespace = actionNamespaces[service];
  return {
    status,
    body: writeXml(errorResponse, 'ErrorResponse', { Error: error, RequestId: requestId }, { namespace }),
  };
}

// The error body, the one that is written without a namespace: `writeXml(…, { namespace: '' })`.

export const errorBody = element({
  Code: token,
  Message: text,
  /** Further elements by name, such as Key or ArgumentName. They must not be called like a field here. */
  elements: optional(rest),
  Resource: optional(text),
  RequestId: optional(token),
  HostId: optional(token),
});
