/** The settings of events, replication, tracing and the console. */
import { duration, integer, list, text, toggle } from './kinds.ts';
import { cidrs, filePath } from './network.ts';
import { notifyTargets } from './notify-targets.ts';
import { fault, onlyServer, optional, type Read, secret, value } from './setting.ts';

// The settings of the notify worker and its targets.

export const notifySettings = {
  SVC_NOTIFY_TARGETS: secret(
    notifyTargets(
      'The targets of bucket notifications; the last field of an ARN is the id of a target. `accounts` lists the accounts whose buckets may name it, `"*"` means every account; a target without `accounts` serves only where all credentials belong to one account.',
    ),
  ),
  SVC_NOTIFY_INTERVAL: duration({
    fallback: '1s',
    range: ['10ms', '1h'],
    doc: 'How often the notify worker looks for events that are due.',
  }),
  SVC_NOTIFY_TIMEOUT: duration({
    fallback: '10s',
    range: ['100ms', '5m'],
    doc: 'How long a target of events may take to answer before the delivery has failed.',
  }),
  SVC_NOTIFY_RETRY_MAX: duration({
    fallback: '24h',
    range: ['1s', '365d'],
    doc: 'How long the delivery of an event is retried before it becomes a dead letter. Should be shorter than SVC_QUEUE_RETENTION.',
  }),
  SVC_NOTIFY_DLQ_RETENTION: duration({
    fallback: '30d',
    range: ['1h', '3650d'],
    doc: 'How long events that could not be delivered are kept as dead letters.',
  }),
  SVC_EGRESS_ALLOW: cidrs(
    'Addresses of this machine, its link or a private network that event targets, replication peers and key providers may have, such as 10.0.0.0/8; checked after each DNS answer.',
  ),
};

// The settings of replication to peers.

export const replicationSettings = {
  SVC_REPLICATION_TIMEOUT: duration({
    fallback: '10s',
    range: ['100ms', '5m'],
    doc: 'How long a replication peer may be silent before the request has failed.',
  }),
  SVC_REPLICATION_INTERVAL: duration({
    fallback: '1s',
    range: ['10ms', '1h'],
    doc: 'How often the replicator looks for versions that are due.',
  }),
  SVC_REPLICATION_RETRY_MAX: duration({
    fallback: '3d',
    range: ['1s', '365d'],
    doc: 'How long the replication of a version is retried; then its status is FAILED. Should be shorter than SVC_QUEUE_RETENTION.',
  }),
  SVC_REPLICATION_FAILED_RETENTION: duration({
    fallback: '30d',
    range: ['1h', '3650d'],
    doc: 'How long versions whose replication was given up are listed, and can be retried one by one. Their status stays FAILED; a resync finds them later too.',
  }),
  SVC_REPLICATION_LIFECYCLE: toggle(
    'off',
    'Replicates delete markers and permanent deletions of lifecycle rules as those of clients. Off, as in the public service: each site has rules of its own.',
  ),
  SVC_REPLICATION_TOMBSTONES: duration({
    fallback: '90d',
    range: ['1d', '3650d'],
    doc: 'How long a site remembers that a replicated version was removed permanently, so that no other site brings it back. Should be longer than any site is cut off.',
  }),
} as const;

// The settings of traces, and of the log lines of slow requests.

const headerPattern = /^[\w!#$%&'*+.^`|~-]+=[^\r\n,]*(?:,\s*[\w!#$%&'*+.^`|~-]+=[^\r\n,]*)*$/;

export const tracingSettings = {
  SVC_SLOW_MS: integer({
    fallback: '1000',
    range: ['0', '3600000'],
    doc: 'Requests that take longer, without waits for the client, are logged at WARN with their slowest backend calls; 0: none.',
  }),
  SVC_TRACE_BROWSER: toggle(
    'on',
    'Keeps up to 16 MiB of traces in the memory of each process, for `sluice admin traces`: failures, the slowest requests, and a sample.',
  ),
  SVC_TRACE_SAMPLE: onlyServer({
    ...text({
      kind: 'share from 0 to 1',
      fallback: '0.01',
      doc: 'The share of requests whose spans are exported. One with a `traceparent` is sampled if its caller sampled it, at most 100 a second of an account.',
    }),
    read: (input: string) =>
      /^(?:0?\.\d{1,9}|[01](?:\.0{1,9})?)$/.test(input)
        ? value(Number(input))
        : fault('is not a share from 0 to 1, such as 0.01'),
  }),
  SVC_OTLP_ENDPOINT: onlyServer(
    optional({
      ...text({
        kind: 'URL',
        doc: 'The OpenTelemetry collector for spans, by OTLP over HTTP, such as http://127.0.0.1:4318; an address without a path gets `/v1/traces`. Unset: none are exported.',
      }),
      read: (input: string) =>
        isHttpUrl(input)
          ? value(input)
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

// Settings of the console where the storage protocol has another address.

const form = /^https?:\/\/[^/?#@\s]+$/i;

/** As browsers write it: lower case, without the default port. */
function readOrigin(input: string): Read<string> {
  const origin = form.test(input) && URL.canParse(input) ? new URL(input).origin : undefined;
  return origin === undefined ? fault('is not an origin such as https://s3.example.com') : value(origin);
}

export const consoleSettings = {
  SVC_CONSOLE_STORAGE_URL: optional({
    ...text({
      kind: 'origin',
      doc: 'Where browsers reach the storage protocol, if not at the address of the console. With SVC_ADMIN_LISTEN the default is that host with the port of SVC_LISTEN.',
    }),
    read: readOrigin,
  }),
  SVC_CONSOLE_ORIGINS: list({
    kind: 'comma list of origins',
    doc: 'Origins of consoles that may read replies of the storage protocol, beside the one of SVC_ADMIN_LISTEN.',
    item: readOrigin,
  }),
};
