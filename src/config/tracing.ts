/** The settings of traces, and of the log lines of slow requests. */
import { duration, integer, text, toggle } from './read/kinds.ts';
import { fault, onlyServer, optional, secret, value } from './read/setting.ts';
import { filePath } from './values/network.ts';

const headerPattern = /^[\w!#$%&'*+.^`|~-]+=[^\r\n,]*(?:,\s*[\w!#$%&'*+.^`|~-]+=[^\r\n,]*)*$/;

export const tracingSettings = {
  SVC_SLOW_MS: integer({
    fallback: '1000',
    range: ['0', '3600000'],
    doc: 'Requests that take longer, without the time in which the gateway waits for the client, are logged at WARN with their slowest backend calls; 0: none.',
  }),
  SVC_TRACE_BROWSER: toggle(
    'on',
    'Keeps up to 16 MiB of traces in the memory of each process, for `sluice admin traces` and `GET /admin/v1/traces`: failures, the slowest requests, and a sample.',
  ),
  SVC_TRACE_SAMPLE: onlyServer({
    ...text({
      kind: 'share from 0 to 1',
      fallback: '0.01',
      doc: 'The share of requests whose spans are exported. A request with a `traceparent` header is sampled if its caller sampled it, at most 100 in a second.',
    }),
    read: (given: string) =>
      /^(?:0?\.\d{1,9}|[01](?:\.0{1,9})?)$/.test(given)
        ? value(Number(given))
        : fault('is not a share from 0 to 1, such as 0.01'),
  }),
  SVC_OTLP_ENDPOINT: onlyServer(
    optional({
      ...text({
        kind: 'URL',
        doc: 'The OpenTelemetry collector that takes spans by OTLP over HTTP, such as http://127.0.0.1:4318; `/v1/traces` is added to an address without a path. Unset: spans are not exported.',
      }),
      read: (given: string) =>
        isHttpUrl(given)
          ? value(given)
          : fault('is not an http or https URL without user, query and fragment'),
    }),
  ),
  SVC_OTLP_HEADERS: onlyServer(
    secret(
      optional(
        text({
          kind: 'headers',
          doc: 'Headers of requests to SVC_OTLP_ENDPOINT, as `name=value` separated by commas, with percent-encoded values.',
          pattern: headerPattern,
          otherwise: 'is not a list such as authorization=Bearer%20token,x-team=storage',
        }),
      ),
    ),
  ),
  SVC_OTLP_HEADERS_FILE: onlyServer(
    optional(filePath('A file with the headers, in place of SVC_OTLP_HEADERS; lines count as commas.')),
  ),
  SVC_OTLP_CA_FILE: onlyServer(
    optional(
      filePath('PEM authorities of the certificate of SVC_OTLP_ENDPOINT, in place of those of the system.'),
    ),
  ),
  SVC_OTLP_TIMEOUT: onlyServer(
    duration({
      fallback: '10s',
      range: ['100ms', '5m'],
      doc: 'How long the collector may take to answer.',
    }),
  ),
};

function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  const isPlain = username === '' && password === '' && search === '' && hash === '';
  return (protocol === 'http:' || protocol === 'https:') && isPlain;
}
