/** A node of two processes for `test/unit/node-siblings.test.ts`: one announces, and the other one's first handler for `broken` throws. */
import cluster from 'node:cluster';
import { joinSiblings, relayAnnouncements } from '../../src/runtime/processes/node-siblings.ts';

const role = process.env['ROLE'];

if (cluster.isPrimary) {
  relayAnnouncements();
  const heeding = cluster.fork({ ROLE: 'heeds' });
  heeding.once('message', function begin(message) {
    if (message !== 'heeds') heeding.once('message', begin);
    else cluster.fork({ ROLE: 'announces' }).once('exit', () => heeding.kill());
  });
} else if (role === 'heeds') {
  const siblings = await joinSiblings((cause) => console.log(`failed: ${String(cause)}`));
  siblings.subscribe('broken', () => {
    throw new Error('this act fails');
  });
  siblings.subscribe('broken', () => console.log('the next act ran'));
  siblings.subscribe('whole', () => console.log('acted'));
  process.send?.('heeds');
} else {
  const siblings = await joinSiblings(() => {});
  for (const topic of ['broken', 'whole'])
    console.log(
      `${topic}: ${await siblings.announce({ topic, about: '' }, topic === 'broken' ? 2_000 : 60_000)}`,
    );
  process.exit(0);
}
