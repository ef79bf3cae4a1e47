/** Signed requests to replication peers: other S3 services, of any vendor. */

/** What is needed to reach a peer. */
export interface PeerAccess {
  readonly endpoint: string;
  readonly region: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** PEM; the certificates that the runtime trusts when absent. */
  readonly ca?: string;
}

export interface PeerRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  readonly bucket: string;
  /** Absent: the bucket itself. */
  readonly key?: string;
  readonly query?: readonly (readonly [string, string])[];
  readonly body?: Uint8Array;
}

/** Any answer, errors too. */
export interface PeerReply {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** No answer: the peer was not reached, was silent for too long, or answered something that is not HTTP. */
export class PeerSilent extends Error {}

export interface PeerRequests {
  /**
   * Does not follow redirects and does not retry.
   * @throws PeerSilent
   */
  ask(access: PeerAccess, request: PeerRequest): Promise<PeerReply>;
}
