/** Signed requests to replication peers: other S3 services, of any vendor. */
import type { Cause } from './trace.ts';

/** What is needed to reach a peer. */
export interface PeerAccess {
  readonly endpoint: string;
  readonly region: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** PEM; the certificates that the runtime trusts when absent. */
  readonly ca?: string;
  /** PEM: this gateway's own certificate and its private key. */
  readonly cert?: string;
  readonly key?: string;
  /** An HTTP proxy: `http://host:port`. It resolves the name of the endpoint, and requests go through a tunnel. */
  readonly proxy?: string;
}

export interface PeerRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  readonly bucket: string;
  /** Absent: the bucket itself. */
  readonly key?: string;
  readonly query?: readonly (readonly [string, string])[];
  readonly body?: Uint8Array;
  /** Named in the header `traceparent`, which is not signed: proxies replace it. */
  readonly cause?: Cause | undefined;
}

/** A request over a connection that stays open for the next one. */
export interface PeerSending extends Omit<PeerRequest, 'method' | 'body'> {
  readonly method: PeerRequest['method'] | 'POST';
  /** By lower-case name; `*-` stands for the prefix of the public API. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | PeerContent;
}
/** A body that is read while it is sent, and not held in memory. */
export interface PeerContent {
  readonly length: number;
  readonly pieces: AsyncIterable<Uint8Array>;
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
  /**
   * The same over pooled connections. The peer may be silent for the time-out, however long the whole request takes. An answer may come
   * before the body is sent; the rest of the body is then left out. In the names of headers of the answer `*-` stands for the prefix of the
   * public API, too.
   * @throws PeerSilent; the error of a body that cannot be read; the reason of the signal
   */
  send(access: PeerAccess, request: PeerSending, signal: AbortSignal): Promise<PeerReply>;
  close(): Promise<void>;
}
