/** A request as a runtime passes it on, from the head that a client sends. */
import { type Incoming, WireHeaders } from '../../src/protocol/wire.ts';

const never = new AbortController().signal;

export function incomingOf(head: string, body?: Uint8Array): Incoming {
  const [line = '', ...lines] = head.trimEnd().split('\r\n');
  const [method = '', target = ''] = line.split(' ');
  const flat = lines.flatMap((each) => [each.slice(0, each.indexOf(':')), each.slice(each.indexOf(':') + 2)]);
  const wire = { method, target, headers: new WireHeaders(flat), remote: '', secure: false };
  return { wire, body: body && once(body), signal: never };
}

async function* once(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body;
}
