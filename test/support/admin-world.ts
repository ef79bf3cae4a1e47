/** A gateway with a bucket, and an operator who sends and reads JSON. */
import { openGateway, operator } from './gateway.ts';
import type { Ask } from './gateway-client.ts';

export async function openAdmin() {
  const world = await openGateway();
  const client = world.as({ credential: operator });
  const send = async (
    method: string,
    path: string,
    { body, ...ask }: Omit<Ask, 'body'> & { body?: object } = {},
  ) => {
    const answer = await client.send(method, `/admin/v1${path}`, {
      ...ask,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { ...answer, json: answer.text === '' ? undefined : JSON.parse(answer.text) };
  };
  await world.client.put('/books');
  return { world, send, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}
