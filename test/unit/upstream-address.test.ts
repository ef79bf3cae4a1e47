/** The address of an upstream bucket in path style and virtual-host style. */
import { expect, test } from 'vitest';
import { resolveAddress } from '../../src/backends/data/upstream-store/client.ts';

test.each([
  [
    'https://s3.example.com',
    'path',
    { origin: 'https://s3.example.com', host: 's3.example.com', base: '/photos' },
  ],
  [
    'http://10.0.0.1:7480',
    'path',
    { origin: 'http://10.0.0.1:7480', host: '10.0.0.1:7480', base: '/photos' },
  ],
  [
    'https://s3.example.com:8443/',
    'virtual-host',
    { origin: 'https://photos.s3.example.com:8443', host: 'photos.s3.example.com:8443', base: '' },
  ],
] as const)('%s in %s style', (endpoint, style, address) => {
  expect(resolveAddress({ endpoint, style, bucket: 'photos' })).toEqual(address);
});
