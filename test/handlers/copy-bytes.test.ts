/** A copy reads into pooled buffers: it keeps no array longer than the array is valid. */
import { describe, expect, it } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';

/** Every 8 bytes differ from all others, so that a misplaced piece is detected. */
function distinct(size: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(size / 4));
  for (let i = 0; i < words.length; i += 1) words[i] = Math.imul(i + 1, 2_654_435_761);
  return new Uint8Array(words.buffer, 0, size);
}

describe.each(backends)('copies on %s', (backend) => {
  it.each([[1], [70_000], [300_000], [4 * 1024 * 1024 + 1], [21 * 1024 * 1024 + 5]])(
    'gives the same %i bytes',
    async (size) => {
      await using world = await openGateway({ backend });
      const body = distinct(size);
      await world.client.put('/source');
      await world.client.put('/source/key', { body, payload: 'unsigned' });
      const copied = await world.client.put('/source/copy', { headers: { '*-copy-source': '/source/key' } });
      expect(copied.status).toBe(200);
      const read = await world.client.get('/source/copy');
      expect(read.status).toBe(200);
      expect(Buffer.compare(read.bytes, body)).toBe(0);
    },
  );
});
