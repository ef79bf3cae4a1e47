/** A view of the ports for one trace: the same ports, whose calls are recorded as its spans. */
import type { KeyProvider } from '../../ports/crypto/key-provider.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import type { PeerRequests } from '../../ports/peer-requests.ts';
import type { ObjectBytes } from '../../ports/storage/object-bytes.ts';
import type { CallRecorder } from './call-recorder.ts';
import { TracedBytes } from './traced-bytes.ts';
import { TracedMetadata } from './traced-metadata.ts';

/** The ports of a context that requests call. */
interface Traceable {
  readonly metadata?: MetadataStore;
  readonly bytes?: ObjectBytes;
  readonly keys?: KeyProvider;
  readonly peers?: PeerRequests;
}

export function tracedPorts(trace: CallRecorder, { metadata, bytes, keys, peers }: Traceable): Traceable {
  return {
    ...(metadata === undefined ? {} : { metadata: new TracedMetadata(metadata, trace) }),
    ...(bytes === undefined ? {} : { bytes: new TracedBytes(bytes, trace) }),
    ...(keys === undefined ? {} : { keys: tracedKeys(keys, trace) }),
    ...(peers === undefined ? {} : { peers: tracedPeers(peers, trace) }),
  };
}

const tracedKeys = (keys: KeyProvider, trace: CallRecorder): KeyProvider => ({
  describe: (keyId) => trace.call('keys.describe', 'key', () => keys.describe(keyId)),
  generate: (keyId, context) => trace.call('keys.generate', 'key', () => keys.generate(keyId, context)),
  wrap: (keyId, key, context) => trace.call('keys.wrap', 'key', () => keys.wrap(keyId, key, context)),
  unwrap: (wrapped, context) => trace.call('keys.unwrap', 'key', () => keys.unwrap(wrapped, context)),
});

const tracedPeers = (peers: PeerRequests, trace: CallRecorder): PeerRequests => ({
  ask: (access, request) =>
    trace.call(`peer.${request.method}`, access.endpoint, (cause) =>
      peers.ask(access, { ...request, cause }),
    ),
  send: (access, request, signal) =>
    trace.call(`peer.${request.method}`, access.endpoint, (cause) =>
      peers.send(access, { ...request, cause }, signal),
    ),
  close: () => peers.close(),
});
