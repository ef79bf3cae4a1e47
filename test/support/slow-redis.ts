/** A server that speaks as much of the Redis protocol as a sink needs, and takes its time for each batch. */
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** An event that the server has taken. */
export interface Taken {
  readonly stream: string;
  readonly body: string;
}

export interface SlowRedis extends AsyncDisposable {
  readonly port: number;
  readonly taken: readonly Taken[];
  readonly connections: number;
  /** It accepts connections, and answers nothing. */
  isSilent: boolean;
  /** How long it takes over a batch, or what it says instead; it answers the batches of a connection in their order. */
  answer: (batch: readonly Taken[]) => Promise<string | undefined>;
}

/** The commands at the beginning of the text, each an array of texts, and the rest. */
function parse(text: string): { readonly commands: string[][]; readonly rest: string } {
  const commands: string[][] = [];
  let at = 0;
  for (;;) {
    const line = /^\*(\d+)\r\n/.exec(text.slice(at, at + 16));
    if (line === null) break;
    let place = at + line[0].length;
    const words: string[] = [];
    for (let n = 0; n < Number(line[1]); n += 1) {
      const head = /^\$(\d+)\r\n/.exec(text.slice(place, place + 16));
      if (head === null) return { commands, rest: text.slice(at) };
      const begin = place + head[0].length;
      place = begin + Number(head[1]) + 2;
      if (place > text.length) return { commands, rest: text.slice(at) };
      words.push(text.slice(begin, place - 2));
    }
    commands.push(words);
    at = place;
  }
  return { commands, rest: text.slice(at) };
}

export async function openSlowRedis(): Promise<SlowRedis> {
  const taken: Taken[] = [];
  const sockets = new Set<Socket>();
  const state = { connections: 0 };
  const server = createServer((socket) => {
    sockets.add(socket);
    state.connections += 1;
    let rest = '';
    let batch: Taken[] = [];
    let last: Promise<void> = Promise.resolve();
    const execute = async (messages: readonly Taken[]): Promise<void> => {
      // Of a connection that has ended it takes nothing more.
      if (socket.destroyed) return;
      const refusal = await redis.answer(messages);
      if (refusal === undefined) taken.push(...messages);
      const each = refusal === undefined ? '$3\r\n1-0\r\n' : `-${refusal}\r\n`;
      if (!socket.destroyed) socket.write(`*${messages.length}\r\n${each.repeat(messages.length)}`);
    };
    const replies: Readonly<Record<string, (words: readonly string[]) => string | undefined>> = {
      INFO: () => '$11\r\nloading:0\r\n\r\n',
      XADD(words) {
        batch.push({ stream: words[1] ?? '', body: words[words.indexOf('body') + 1] ?? '' });
        return '+QUEUED\r\n';
      },
      EXEC() {
        const messages = batch;
        batch = [];
        last = last.then(() => execute(messages));
        return undefined;
      },
    };
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (piece) => {
      if (redis.isSilent) return;
      const { commands, rest: left } = parse(rest + piece.toString('latin1'));
      rest = left;
      for (const words of commands) {
        const reply = replies[words[0]?.toUpperCase() ?? ''];
        const text = reply === undefined ? '+OK\r\n' : reply(words);
        if (text !== undefined) last = last.then(() => void socket.write(text));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const redis: SlowRedis = {
    port: (server.address() as AddressInfo).port,
    taken,
    get connections() {
      return state.connections;
    },
    isSilent: false,
    answer: async () => undefined,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return redis;
}
