/** The XML answers of a replication peer, as far as this gateway reads them; services add elements of their own. */
import type { PeerReply } from '../../../ports/peer-requests.ts';
import { element, optional, readXml, token, type Xml } from '../../../protocol/formats/codec.ts';

const lax = { unknown: 'ignore' } as const;
const limits = { maxBytes: 256 * 1024 } as const;

const errorAnswer = element({ Code: token, ServerTime: optional(token) }, lax);
export const versioningAnswer = element({ Status: optional(token) }, lax);
export const lockAnswer = element(
  { ObjectLockEnabled: optional(token), Rule: optional(element({}, lax)) },
  lax,
);

/** Undefined where the body is not that. */
export function readPeerAnswer<T>(schema: Xml<T>, rootName: string, { body }: PeerReply): T | undefined {
  try {
    return readXml(schema, rootName, body, limits);
  } catch {
    return undefined;
  }
}

export interface PeerError {
  readonly status: number;
  /** '' where there is no error, or none that an S3 service sends. */
  readonly code: string;
  readonly serverTime?: string;
}

export function readPeerError(reply: PeerReply): PeerError {
  const { status } = reply;
  if (status < 300) return { status, code: '' };
  const { Code = '', ServerTime } = readPeerAnswer(errorAnswer, 'Error', reply) ?? {};
  // The operator's page shows it, so it may hold nothing but a name.
  const code = /^[A-Za-z0-9.]{1,64}$/.test(Code) ? Code : '';
  return { status, code, ...(ServerTime === undefined ? {} : { serverTime: ServerTime }) };
}
