/** A POST of JSON through a guarded connection. */
import undici from 'undici/index.js';

/**
 * Posts JSON to a server that an operator's setting names. Unlike the targets of events, its address is the operator's alone to choose,
 * and a collector is usually on this machine, so `SVC_EGRESS_ALLOW` does not apply.
 */
// By its file name, because Bun replaces the bare name by a module of its own.

export interface PosterOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** PEM. */
  readonly ca?: string | undefined;
  readonly timeoutMs: number;
}

export interface Poster {
  /** The status, and the seconds of `Retry-After`. @throws when there is no answer */
  post(body: string): Promise<{ readonly status: number; readonly retryAfter: number | undefined }>;
  close(): Promise<void>;
}

export function openPoster({ url, headers, ca, timeoutMs }: PosterOptions): Poster {
  const { origin, pathname, search } = new URL(url);
  const pool = new undici.Pool(origin, {
    connections: 1,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: { timeout: timeoutMs, ...(ca === undefined ? {} : { ca }) },
  });
  return {
    async post(body) {
      const reply = await pool.request({
        method: 'POST',
        path: pathname + search,
        headers: { ...headers, 'content-type': 'application/json' },
        body,
        signal: AbortSignal.timeout(timeoutMs),
      });
      await reply.body.dump();
      const seconds = Number(reply.headers['retry-after']);
      return { status: reply.statusCode, retryAfter: seconds > 0 ? seconds : undefined };
    },
    close: () => pool.destroy(),
  };
}
