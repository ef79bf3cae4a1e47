/**
 * POSTs each message to a URL, by the HTTP client of the runtime. Headers name and sign it as the Standard Webhooks specification says:
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import type { Delivery, EventSink, SinkFailure, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import type { SinkOptions } from './sink-options.ts';

/** Bytes of an answer that are read; the connection is closed where there are more. */
const answerMax = 64 * 1024;
/**
 * Statuses by which a sink refuses this message for good. All other errors are retried; each may be about this message
 * only, for example where a filter in front of the receiver dislikes its key.
 */
const refusals: ReadonlySet<number> = new Set([400, 413, 415, 422]);

interface WebhookPost {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}

interface WebhookAnswer {
  readonly status: number;
  /** Where a redirect leads to. Redirects are not followed. */
  readonly location: string | undefined;
  readonly body: AsyncIterable<Uint8Array>;
}

/** An HTTP client that checks addresses before it connects. */
export interface WebhookClient {
  post(request: WebhookPost): Promise<WebhookAnswer>;
  /** Whether the error came after there was a connection. */
  endedAfterConnect(cause: unknown): boolean;
  close(): Promise<void>;
}

export function webhookSink(target: SinkTarget, options: SinkOptions, client: WebhookClient): EventSink {
  const { timeoutMs } = options;
  const url = new URL(target.url);

  /** @returns why the sink does not have the message; undefined when it acknowledged */
  async function post(message: SinkMessage, signal: AbortSignal): Promise<SinkFailure | undefined> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), timeoutMs);
    try {
      const { status, location, body } = await client.post({
        url,
        headers: webhookHeaders(target, message, options),
        body: message.body,
        signal: AbortSignal.any([signal, late.signal]),
      });
      let bytes = 0;
      // The answer is read to its end, so that the connection can be used again.
      for await (const chunk of body) {
        bytes += chunk.length;
        if (bytes > answerMax) break;
      }
      return classifyReply(status, location);
    } catch (cause) {
      signal.throwIfAborted();
      if (late.signal.aborted)
        return { kind: 'lost', error: `the sink did not answer within ${timeoutMs} ms` };
      const error = `the sink cannot be reached: ${(cause as Error).message || String(cause)}${closedHint(target, cause)}`;
      return { kind: client.endedAfterConnect(cause) ? 'lost' : 'unavailable', error };
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    async deliver(messages, signal): Promise<Delivery> {
      let delivered = 0;
      for (const message of messages) {
        try {
          const failure = await post(message, signal);
          if (failure !== undefined) return { delivered, failure };
        } catch (cause) {
          if (delivered === 0) throw cause;
          return { delivered };
        }
        delivered += 1;
      }
      return { delivered };
    },
    close: () => client.close(),
  };
}

/** A server that asks in vain for a certificate closes the connection, without a reason by TLS 1.3. */
const closedHint = ({ url, certFile }: SinkTarget, cause: unknown): string => {
  const { code } = cause as { readonly code?: string };
  const isClosed = code === 'UND_ERR_SOCKET' || code === 'ECONNRESET';
  return isClosed && url.startsWith('https:') && certFile === undefined
    ? ': where it asks for a client certificate, name certFile and keyFile'
    : '';
};

function classifyReply(status: number, location: string | undefined): SinkFailure | undefined {
  if (status >= 200 && status < 300) return undefined;
  if (status >= 300 && status < 400)
    return {
      kind: 'failed',
      error: `the sink answered ${status} with a redirect${location === undefined ? '' : ` to ${location.slice(0, 200)}`}, which is not followed: name the final URL in SVC_NOTIFY_TARGETS`,
    };
  const hint =
    status === 401 || status === 403
      ? ': check the token, the password or the secret of the target'
      : status === 404 || status === 405
        ? ': check the URL of the target'
        : '';
  return {
    kind: refusals.has(status) ? 'refused' : 'failed',
    error: `the sink answered ${status}${hint}`,
  };
}

function webhookHeaders(
  { secret, token, username, password }: SinkTarget,
  { id, body, contentType, traceparent }: SinkMessage,
  { hasher, clock }: SinkOptions,
): Record<string, string> {
  const timestamp = String(Math.floor(clock.now() / 1000));
  const headers: Record<string, string> = {
    'content-type': contentType,
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    ...(traceparent === undefined ? {} : { traceparent }),
  };
  if (token !== undefined) headers['authorization'] = `Bearer ${token}`;
  else if (username !== undefined)
    headers['authorization'] = `Basic ${btoa(`${username}:${password ?? ''}`)}`;
  if (secret !== undefined) {
    const signed = hasher.hmacSha256(readSecret(secret), `${id}.${timestamp}.${body}`);
    headers['webhook-signature'] = `v1,${btoa(String.fromCharCode(...signed))}`;
  }
  return headers;
}

/** The specification writes keys as `whsec_` and base64; any other text is taken as it is. */
const readSecret = (secret: string): Uint8Array =>
  secret.startsWith('whsec_')
    ? Uint8Array.from(atob(secret.slice('whsec_'.length)), (char) => char.charCodeAt(0))
    : new TextEncoder().encode(secret);
