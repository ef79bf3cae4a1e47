/** Free ports. */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Below the ports that the kernel assigns and that Ceph uses, so that no other process takes one while its engine is down. */
const lowest = 10_000;
const highest = 18_000;

export async function freePorts(count: number): Promise<readonly number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(lowest, highest);
    if (await areFree([port])) ports.add(port);
  }
  return [...ports];
}

/** Whether all of these ports are free. */
export async function areFree(ports: readonly number[]): Promise<boolean> {
  const tries = ports.map(
    (port) =>
      new Promise<boolean>((resolve) => {
        const server = createServer();
        server.once('error', () => resolve(false));
        server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
      }),
  );
  return (await Promise.all(tries)).every((isFree) => isFree);
}
