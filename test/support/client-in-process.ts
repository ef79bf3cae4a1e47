/** The load client for a gateway in the test's own process. */
import type { GatewayWorld } from './gateway.ts';
import type { LoadClient } from './load-client.ts';

const lowerCased = (headers: readonly (readonly [string, string])[]): Record<string, string> =>
  Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));

export function clientInProcess({ client: inner }: Pick<GatewayWorld, 'client'>): LoadClient {
  const client: LoadClient = {
    async send({ method = 'GET', path, ...spec }) {
      const { status, headers, bytes, text } = await inner.send(method, path ?? '/', spec);
      return { status, headers: lowerCased(headers), body: Buffer.from(bytes), text };
    },
    async expect(spec, statuses = [200, 204]) {
      const answer = await client.send(spec);
      if (statuses.includes(answer.status)) return answer;
      throw new Error(`${spec.method ?? 'GET'} ${spec.path}: ${answer.status} ${answer.text.slice(0, 400)}`);
    },
    close() {},
  };
  return client;
}
