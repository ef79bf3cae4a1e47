/**
 * `sluice health`: asks the gateway of the same settings on this machine whether it answers; for health checks of
 * containers and services.
 */
import { get } from 'node:http';
import { get as getSecure } from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';
import { parseDuration } from '../../config/kinds.ts';
import { type Configuration, formatEndpoint } from '../compose/configuration.ts';

/** Shorter than the timeout of the health checks in `deploy/`, so that the command prints its reason. */
const replyMs = 4000;
const retryMs = 200;
const replyCharsMax = 1000;
const waitMsMax = 3_600_000;

const waitText = (own: readonly string[]): string =>
  own.findLast((each) => each.startsWith('--wait='))?.slice('--wait='.length) ?? '0s';

export function healthFaults({ config }: Configuration, own: readonly string[]): readonly string[] {
  const waitMs = parseDuration(waitText(own));
  const { port } = config.SVC_ADMIN_LISTEN ?? config.SVC_LISTEN;
  return [
    ...(waitMs === undefined || waitMs > waitMsMax
      ? [`--wait=${waitText(own)} is not a duration up to 1h`]
      : []),
    ...(port === 0 ? ['the settings have port 0, which does not say where the gateway listens'] : []),
  ];
}

/** Resolves with the exit code: 0 where the gateway answers 200 before the time of `--wait` is over. */
export async function health({ config }: Configuration, own: readonly string[]): Promise<number> {
  const isSecure = config.SVC_TLS_CERT_FILE !== undefined;
  const endpoint = formatEndpoint(config.SVC_ADMIN_LISTEN ?? config.SVC_LISTEN, isSecure);
  // Reads suffice, because a gateway with a full disk must still serve the deletions that empty it.
  const url = `${endpoint}${own.includes('--ready') ? '/readyz?need=reads' : '/healthz'}`;
  const end = performance.now() + (parseDuration(waitText(own)) ?? 0);
  let reply = await ask(url);
  while (!reply.isHealthy && performance.now() < end) {
    await pause(retryMs);
    reply = await ask(url);
  }
  process.stdout.write(`${url}: ${reply.text}\n`);
  return reply.isHealthy ? 0 : 1;
}

interface Reply {
  readonly isHealthy: boolean;
  readonly text: string;
}

function ask(url: string): Promise<Reply> {
  const failed = (cause: Error & { code?: string }): Reply => ({
    isHealthy: false,
    text: cause.code ?? cause.message,
  });
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(replyMs);
    // The certificate names the public host, not this address; the request has no secret, and the reply is a status.
    const sent = url.startsWith('https:')
      ? getSecure(url, { signal, rejectUnauthorized: false })
      : get(url, { signal });
    sent.on('error', (cause) => resolve(failed(cause)));
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text = `${text}${part}`.slice(0, replyCharsMax);
      });
      response.on('error', (cause) => resolve(failed(cause)));
      response.on('end', () =>
        resolve({ isHealthy: response.statusCode === 200, text: `${response.statusCode} ${text.trim()}` }),
      );
    });
  });
}
