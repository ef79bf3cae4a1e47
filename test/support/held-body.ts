/** Requests whose bodies are held back while the configuration changes. */
import type { Answer, Ask, Client } from './gateway-client.ts';

/**
 * Sends so many bytes of a body immediately, and the rest when `last` resolves. With a negative number that many bytes are the rest.
 * @param onHeld is called when the gateway asks for the rest
 */
export const holdingAfter = (bytes: number, last: Promise<void>, onHeld = () => {}) =>
  async function* arriving(body: Uint8Array): AsyncGenerator<Uint8Array> {
    yield body.subarray(0, bytes);
    onHeld();
    await last;
    yield body.subarray(bytes);
  };

export interface HeldRequest {
  readonly method: string;
  readonly path: string;
  readonly ask: Ask;
  /** The number of bytes of the body that arrive immediately; the rest is held back. Default 0. */
  readonly early?: number;
}

/**
 * Sends a request, runs `meanwhile` when the gateway asks for the rest of the body, and then sends that rest.
 * @throws if the request was answered without its body
 */
export async function whileHeld(
  client: Client,
  { method, path, ask, early = 0 }: HeldRequest,
  meanwhile: () => Promise<unknown>,
): Promise<Answer> {
  const { promise: asked, resolve: begin } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const answering = client.send(method, path, {
    ...ask,
    async *arriving(body) {
      if (early > 0) yield body.subarray(0, early);
      begin();
      await released;
      yield body.subarray(early);
    },
  });
  const first = await Promise.race([asked.then(() => undefined), answering]);
  if (first !== undefined) throw new Error(`${method} ${path} was answered without its body: ${first.text}`);
  await meanwhile();
  release();
  return answering;
}
