/** GET /audit/export to a slow reader: the gateway reads rows as the reader takes them, and keeps few. */
import { expect, test } from 'vitest';
import { audited } from '../../src/metadata/audit.ts';
import { audit } from '../../src/metadata/records/audit.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { signer, toRequest } from '../support/sign.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const rows = 8_000;
/** Rows that may be read before the reader has taken more than a piece: 64 of each of the 8 slots, and some pieces of 32 KiB. */
const readAheadMax = 1_200;

test('an export that nobody reads on holds few rows, and one that is cancelled reads no more', async () => {
  const clock = virtualClock();
  let read = 0;
  const counting = (metadata: MetadataStore): MetadataStore =>
    faulty(metadata, {
      scan: (...call: Parameters<MetadataStore['scan']>) => {
        const cursor = metadata.scan(...call);
        return faulty(cursor, {
          next: async (count: number) => {
            const found = await cursor.next(count);
            if (call[0].table === audit) read += found.length;
            return found;
          },
        });
      },
    } as never);
  await using world = await openGateway({
    clock,
    wrap: (context) => ({ ...context, metadata: counting(context.metadata) }),
  });
  const entry = {
    action: 'PutObject',
    resource: 'bucket:bucket',
    status: 200,
    principal: 'p',
    accessKey: 'k',
    source: '127.0.0.1',
  };
  for (let n = 0; n < rows; n += 1) {
    const row = { ...entry, time: clock.now() - rows + n, id: String(n).padStart(16, '0') };
    await world.context.metadata.apply([audited(row as never, { retentionMs: 86_400_000 })] as never);
  }
  const sign = signer({ ...operator, dialect: 'amz', host: 'localhost', now: clock.now });
  const open = async () => {
    const request = sign.request({ method: 'GET', path: '/admin/v1/audit/export' });
    const { status, body } = await world.gateway.fetch(toRequest(request));
    expect(status).toBe(200);
    return (body as ReadableStream<Uint8Array>).getReader();
  };

  read = 0;
  const slow = await open();
  const pieces = [(await slow.read()).value ?? new Uint8Array()];
  for (let turn = 0; turn < 50; turn += 1) await clock.settle();
  expect(read).toBeGreaterThan(0);
  expect(read).toBeLessThan(readAheadMax);
  const held = read;
  for (let next = await slow.read(); !next.done; next = await slow.read()) {
    pieces.push(next.value);
    expect(read - held).toBeLessThan(pieces.length * readAheadMax);
  }
  const lines = Buffer.concat(pieces).toString().trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line).requestId)).toEqual(
    Array.from({ length: rows }, (_, n) => String(n).padStart(16, '0')),
  );

  const cut = await open();
  await cut.read();
  await cut.cancel();
  const before = read;
  for (let turn = 0; turn < 50; turn += 1) await clock.settle();
  expect(read).toBe(before);
});
