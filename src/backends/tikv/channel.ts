/** gRPC for this client: unary calls and streams of its own messages; the only import of @grpc/grpc-js. */
import { type ChannelCredentials, Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import type { MessageCodec } from './messages.ts';

export interface Tls {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

const messageBytesMax = 64 * 1024 * 1024;
const options = {
  'grpc.max_receive_message_length': messageBytesMax,
  'grpc.max_send_message_length': messageBytesMax,
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 3_000,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

export interface Rpc<Q, A> {
  readonly path: string;
  readonly ask: MessageCodec<Q>;
  readonly answer: MessageCodec<A>;
}

export type Stream<A> = ClientDuplexStream<object, A>;

export class Channel {
  readonly #client: Client;

  /** @param address `host:port` */
  constructor(address: string, tls: Tls | undefined) {
    this.#client = new Client(address, buildCredentials(tls), options);
  }

  call<Q, A>({ path, ask, answer }: Rpc<Q, A>, request: object, timeoutMs: number): Promise<A> {
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest<object, A>(
        path,
        ask.encode,
        answer.decode,
        request,
        { deadline: performance.timeOrigin + performance.now() + timeoutMs },
        (error, value) => {
          if (error !== null || value === undefined) reject(error ?? new Error(`${path} gave no answer`));
          else resolve(value);
        },
      );
    });
  }

  stream<Q, A>({ path, ask, answer }: Rpc<Q, A>): Stream<A> {
    return this.#client.makeBidiStreamRequest<object, A>(path, ask.encode, answer.decode);
  }

  close(): void {
    this.#client.close();
  }
}

function buildCredentials(tls: Tls | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  return credentials.createSsl(tls.ca ?? null, tls.key ?? null, tls.cert ?? null);
}
