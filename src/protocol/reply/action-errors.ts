/** Refusals in the form of the public IAM and STS APIs: a different XML document, and other names of a few codes. */
import type { ErrorCode } from '../../errors/codes.ts';
import { type ErrorEntry, errorCatalogue } from '../errors.ts';
import { element, text, token, writeXml } from '../formats/codec.ts';
import { parseableText } from '../formats/xml.ts';

export type ActionService = 'iam' | 'sts' | 's3';

/** The service of a policy action. */
export const serviceOf = (action: string): ActionService =>
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
export function actionError(
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
