/** The gateway in the bench's own process and without a socket: its cost above that of a driver in the same process. */

import { createGateway } from '../../src/admin-gateway.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { Gateway } from '../../src/gateway.ts';
import { type Composed, compose } from '../../src/runtime/compose/compose.ts';
import { nodeTelemetry } from '../../src/runtime/processes/node-telemetry.ts';
import { incomingOf } from './incoming.ts';
import { benchCredential, Signer } from './sign.ts';

const signer = new Signer('localhost:9000');

export class Inside implements AsyncDisposable {
  readonly #composed: Composed;
  readonly #gateway: Gateway;

  private constructor(composed: Composed) {
    this.#composed = composed;
    this.#gateway = createGateway(composed.context);
  }

  /** @param env the settings of a `Door` on the same stores */
  static async open(env: Readonly<Record<string, string>>): Promise<Inside> {
    const config = configWith(env);
    const options = { credentials: [benchCredential], telemetry: nodeTelemetry(config) };
    return new Inside(await compose(config, options));
  }

  /** The same request again and again, signed once; resolves when its body has been read. */
  asking(method: 'GET' | 'HEAD', path: string, query = ''): () => Promise<void> {
    const head = signer.header({ method, path, query });
    return async () => {
      const { status, body } = await this.#gateway.handle(incomingOf(head));
      if (status !== 200) throw new Error(`${method} ${path} answered ${status}`);
      if (typeof body === 'object' && Symbol.asyncIterator in body) for await (const _ of body);
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#composed.close();
  }
}
