import { expect, test } from 'vitest';
import { openBandwidth } from '../../src/domain/replication/bandwidth.ts';

const never = new AbortController().signal;
const kibibyte = 1024;
const pieceBytes = 16 * kibibyte;

/** A clock whose sleeps take no time. */
function sleepingClock() {
  let now = 0;
  const sleep = async (ms: number): Promise<void> => {
    now += ms;
  };
  return { elapsed: () => now, sleep };
}

const repeat = (account: string, count: number, bytes: number) =>
  Array.from({ length: count }, () => ({ account, bytes }));
const others = (count: number, bytes: number) =>
  Array.from({ length: 30 }, (_, n) => repeat(`other-${n}`, count, bytes)).flat();

test.each([
  ['80 bodies of an account', repeat('a', 80, 260 * kibibyte)],
  [
    'bodies of all sizes of an account',
    [100, 5000, 300, 20].flatMap((size) => repeat('a', 40, size * kibibyte)),
  ],
  ['an account beside thirty others', [...repeat('a', 60, 260 * kibibyte), ...others(3, 260 * kibibyte)]],
  ['small bodies beside others', [...repeat('a', 20, 5000 * kibibyte), ...others(40, 64 * kibibyte)]],
] as const)(
  'no body of a peer with a bandwidth is so slow that its receiver ends it: %s',
  async (_what, bodies) => {
    for (const rate of [64, 100, 1_000, 10_000].map((each) => each * kibibyte)) {
      const clock = sleepingClock();
      const open = openBandwidth(clock, rate);
      let longestMs = 0;
      let sent = 0;
      await Promise.all(
        bodies.map(({ account, bytes }) => {
          const bandwidth = open(account);
          return bandwidth.run(
            bytes,
            async () => {
              // A small body waits for the rate as a whole, before its request begins.
              if (bytes <= 64 * kibibyte) await bandwidth.pace(bytes, never);
              else
                for (let at = 0; at < bytes; at += pieceBytes) {
                  const begun = clock.elapsed();
                  await bandwidth.pace(Math.min(pieceBytes, bytes - at), never);
                  longestMs = Math.max(longestMs, clock.elapsed() - begun);
                }
              sent += bytes;
            },
            never,
          );
        }),
      );
      // Receivers ask for 1 KiB per second, over 30 seconds; some end a body after 20 seconds without a byte.
      expect(longestMs, `at ${rate}`).toBeLessThan(15_000);
      // All of the bandwidth is used.
      expect(clock.elapsed(), `at ${rate}`).toBeLessThan((sent / rate) * 1_000 + 1_000);
    }
  },
);
