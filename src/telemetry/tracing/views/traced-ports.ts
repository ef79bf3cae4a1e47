/** A view of the ports for one trace: the same ports, whose calls are recorded as its spans. */
import type { KeyProvider } from '../../../ports/crypto/key-provider.ts';
import type { MetadataStore } from '../../../ports/metadata-store.ts';
import type { PeerRequests } from '../../../ports/peer-requests.ts';
import type { ObjectBytes } from '../../../ports/storage/object-bytes.ts';
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

/**
 * Replaces the ports of a copy of the context. They are assigned, because a copy that is made from two objects has slow properties, and
 * a request reads its context some hundred times.
 */
export function assignPorts<V extends object>(view: V, ports: Traceable, trace: CallRecorder): V {
  const { metadata, bytes, keys, peers } = ports;
  const target: { -readonly [P in keyof Traceable]: Traceable[P] } = view;
  if (metadata !== undefined) target.metadata = new TracedMetadata(metadata, trace);
  if (bytes !== undefined) target.bytes = new TracedBytes(bytes, trace);
  if (keys !== undefined) target.keys = new Proxy(keys, new KeyCalls(trace));
  if (peers !== undefined) target.peers = new TracedPeers(peers, trace);
  return view;
}

const keyCalls: ReadonlySet<PropertyKey> = new Set(['describe', 'generate', 'wrap', 'unwrap', 'rewrap']);

/** Of a proxy, because providers have further methods, and state of their own. */
class KeyCalls implements ProxyHandler<KeyProvider> {
  readonly #trace: CallRecorder;

  constructor(trace: CallRecorder) {
    this.#trace = trace;
  }

  get(provider: KeyProvider, name: PropertyKey): unknown {
    const member: unknown = Reflect.get(provider, name);
    if (typeof member !== 'function') return member;
    if (!keyCalls.has(name)) return member.bind(provider);
    return (...given: readonly unknown[]) =>
      this.#trace.call(`keys.${String(name)}`, 'provider', (cause) =>
        Reflect.apply(member, provider, [...given, cause]),
      );
  }
}

class TracedPeers implements PeerRequests {
  readonly #peers: PeerRequests;
  readonly #trace: CallRecorder;

  constructor(peers: PeerRequests, trace: CallRecorder) {
    this.#peers = peers;
    this.#trace = trace;
  }

  ask(...[access, request]: Parameters<PeerRequests['ask']>) {
    return this.#trace.call(`peer.${request.method}`, access.endpoint, (cause) =>
      this.#peers.ask(access, { ...request, cause }),
    );
  }

  send(...[access, request, signal]: Parameters<PeerRequests['send']>) {
    return this.#trace.call(`peer.${request.method}`, access.endpoint, (cause) =>
      this.#peers.send(access, { ...request, cause }, signal),
    );
  }

  close() {
    return this.#peers.close();
  }
}
