/** Prints what a runtime measures while its event loop runs freely, is blocked for 2 s, and runs freely again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { measureEventLoopLag } from '../../src/runtime/processes/node-diagnostics.ts';

const lag = measureEventLoopLag();
const read = async (): Promise<number> => {
  await sleep(200);
  return lag.read();
};
const free = await read();
const until = performance.now() + 2_000;
while (performance.now() < until);
const blocked = await read();
console.log(JSON.stringify({ free, blocked, after: await read() }));
