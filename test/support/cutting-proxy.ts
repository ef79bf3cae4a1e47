/**
 * A TCP proxy in front of a server that breaks connections: those that carry a text, as of a receiver that dies of one
 * message, and by chance.
 */

import type { AddressInfo } from 'node:net';
import { createConnection, createServer, type Socket } from 'node:net';
import type { Dice } from './dice.ts';

export interface CuttingProxy extends AsyncDisposable {
  readonly port: number;
  /** Connections that send this text are cut before it arrives. */
  poison: string | undefined;
  /** Of a hundred pieces so many are cut off, before or after they arrive. */
  cutOf100: number;
}

export async function openCuttingProxy(to: number, dice: Dice): Promise<CuttingProxy> {
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = createConnection(to, '127.0.0.1');
    let tail = '';
    const cut = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', cut);
      socket.on('close', () => {
        open.delete(socket);
        cut();
      });
    }
    client.on('data', (piece) => {
      const { poison } = proxy;
      // The text may be in two pieces.
      const seen = tail + piece.toString('latin1');
      if (poison !== undefined && seen.includes(poison)) return cut();
      tail = seen.slice(-(poison?.length ?? 1));
      const isCut = dice.roll(100) < proxy.cutOf100;
      if (isCut && dice.chance(2)) return cut();
      upstream.write(piece, () => void (isCut && cut()));
    });
    upstream.on('data', (piece) => void client.write(piece));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: CuttingProxy = {
    port: (server.address() as AddressInfo).port,
    poison: undefined,
    cutOf100: 0,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}
