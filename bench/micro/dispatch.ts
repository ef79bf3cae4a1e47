/** Choosing the operation of a request, beside a look-up in a Map. */
import { select } from '../../src/protocol/operations/operations.ts';
import { Query } from '../../src/protocol/wire.ts';
import { microsOfSync, type Piece } from '../lib/micro.ts';

export async function dispatch(): Promise<Piece[]> {
  const known = new Map(['PUT object', 'GET object', 'GET bucket'].map((at) => [at, at]));
  const [plain, upload, list] = ['', 'partNumber=1&uploadId=abc', 'list-type=2&prefix=a%2Fb&max-keys=1000'];
  const none = (): boolean => false;
  const floor = { name: 'a Map look-up', micros: microsOfSync(() => known.get('GET object')) };
  const parsed = new Query(list);
  return [
    {
      name: 'dispatch, GetObject',
      micros: microsOfSync(() => select('GET', 'object', new Query(plain), none)),
      floor,
    },
    {
      name: 'dispatch, UploadPart',
      micros: microsOfSync(() => select('PUT', 'object', new Query(upload), none)),
      floor,
    },
    {
      name: 'dispatch, ListObjectsV2',
      micros: microsOfSync(() => select('GET', 'bucket', parsed, none)),
      floor,
    },
  ];
}
