/** The metadata objects of a script in workerd, as a test in Node reaches them (`object-calls.ts`). */
import { Agent } from 'node:http';
import type { MetadataNamespace } from '../../src/runtime/cloudflare/bindings.ts';
import { decodeCall, encodeCall, type ObjectCall, type Replied } from './object-calls.ts';
import { sendWhole } from './whole-requests.ts';

/** Idle connections are closed before workerd does it, after 5 s; of calls that were sent at once, all but the first wait. */
const agent = new Agent({ keepAlive: true, timeout: 1_000, maxSockets: 16 });

type Headers = Readonly<Record<string, string>>;

async function send({ hostname, port, pathname }: URL, text: string, headers: Headers): Promise<string> {
  const { status, body } = await sendWhole(
    { agent, hostname, port, path: pathname, method: 'POST', headers },
    text,
  );
  if (status === 200) return body.toString();
  throw new Error(`workerd answered ${status}: ${body}`);
}

/** @param readHeaders of the next call */
export function objectsAt(url: URL, readHeaders: () => Headers = () => ({})): MetadataNamespace {
  const call = async (sent: ObjectCall): Promise<unknown> => {
    const replied = decodeCall(await send(url, encodeCall(sent), readHeaders())) as Replied;
    if ('refusal' in replied) throw new Error(replied.refusal);
    return replied.answer;
  };
  return {
    idFromName: (name) => name,
    get: (object) =>
      new Proxy(
        {},
        {
          get:
            (_, method) =>
            (...args: readonly unknown[]) =>
              call({ object: object as string, method: method as string, args }),
        },
      ),
  };
}
