/** Versions reach a real versitygw: the check of the peer, and what the replicator sends to it. */
import { describe } from 'vitest';
import { noSinkServer, startSinkServer } from '../support/engines/sink-servers.ts';
import { peerLaws } from '../support/peer-laws.ts';

const reason = noSinkServer('versitygw');

describe.skipIf(reason !== undefined)(
  `a versitygw as a peer${reason === undefined ? '' : `: ${reason}`}`,
  () =>
    peerLaws({
      async open() {
        const server = await startSinkServer('versitygw');
        return {
          endpoint: `http://127.0.0.1:${server.port}`,
          accessKey: 'sluice',
          secretKey: 'sluicesecret',
          [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
        };
      },
    }),
);
