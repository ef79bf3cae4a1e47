/** The settings of `SVC_META_BACKEND=ordered-kv`. */
import { duration, text } from '../read/kinds.ts';
import { optional } from '../read/setting.ts';
import { endpoints, filePath } from '../values/network.ts';

export const orderedKvSettings = {
  SVC_KV_PD_ENDPOINTS: optional(
    endpoints(
      'The placement drivers of TiKV, for SVC_META_BACKEND=ordered-kv; they are tried in this order.',
    ),
  ),
  SVC_KV_PREFIX: text({
    kind: 'prefix',
    fallback: 'sluice/',
    pattern: /^[\x21-\x7e]{1,64}$/,
    otherwise: 'is not 1 to 64 printable ASCII characters',
    doc: 'The prefix of every key in TiKV, so that a cluster can be shared.',
  }),
  SVC_KV_TIMEOUT: duration({
    fallback: '15s',
    range: ['500ms', '2m'],
    doc: 'How long a read, or one phase of a write, is retried before the request is answered with 503.',
  }),
  SVC_KV_GC_AGE: duration({
    fallback: '1h',
    range: ['0s', '7d'],
    doc: 'How old versions of rows must be before TiKV may drop them; 0s leaves that to a TiDB in the same cluster.',
  }),
  SVC_KV_CA_FILE: optional(filePath('PEM authority of the certificates of PD and TiKV; turns TLS on.')),
  SVC_KV_CERT_FILE: optional(filePath('PEM client certificate for PD and TiKV; needs SVC_KV_CA_FILE.')),
  SVC_KV_KEY_FILE: optional(filePath('PEM private key of SVC_KV_CERT_FILE.')),
};
