/** Writing a page of a listing and reading DeleteObjects bodies, each of 1,000 keys. */
import { XMLParser } from 'fast-xml-parser';
import { readXml, writeXml } from '../../src/protocol/formats/codec.ts';
import { listObjectsV2Result } from '../../src/protocol/schemas/listing.ts';
import { deleteRequest } from '../../src/protocol/schemas/object.ts';
import { microsOfSync, type Piece } from '../lib/micro.ts';

const count = 1000;
const keyOf = (number: number): string => `folder/with some/object-${String(number).padStart(8, '0')}`;
const maxBytes = 2 * 1024 * 1024;

export async function xml(): Promise<Piece[]> {
  const contents = Array.from({ length: count }, (_, i) => ({
    Key: keyOf(i),
    LastModified: '2026-11-21T12:00:00.000Z',
    ETag: 'd41d8cd98f00b204e9800998ecf8427e',
    ChecksumAlgorithm: [],
    Size: 4096,
    StorageClass: 'STANDARD',
  }));
  const page = {
    Name: 'bench',
    Prefix: '',
    KeyCount: count,
    MaxKeys: count,
    IsTruncated: false,
    Contents: contents,
    CommonPrefixes: [],
  };
  const text = `<Delete>${contents.map(({ Key }) => `<Object><Key>${Key}</Key></Object>`).join('')}</Delete>`;
  const bytes = new TextEncoder().encode(text);
  const long = new TextEncoder().encode(text.replaceAll('</Key>', `${'x'.repeat(960)}</Key>`));
  const parser = new XMLParser({ parseTagValue: false, trimValues: false });
  const join = {
    name: 'the same as one template',
    micros: microsOfSync(() => contents.map(lineOf).join('')),
  };
  const decode = { name: 'decoding the text', micros: microsOfSync(() => new TextDecoder().decode(bytes)) };
  return [
    {
      name: 'xml, write a page of 1,000',
      micros: microsOfSync(() => writeXml(listObjectsV2Result, 'ListBucketResult', page)),
      floor: join,
    },
    {
      name: 'xml, read 1,000 to delete',
      micros: microsOfSync(() => readXml(deleteRequest, 'Delete', bytes, { maxBytes })),
      floor: decode,
    },
    {
      name: 'xml, read 1,000 of 1,000 bytes to delete',
      micros: microsOfSync(() => readXml(deleteRequest, 'Delete', long, { maxBytes })),
      floor: {
        name: 'fast-xml-parser, into objects',
        micros: microsOfSync(() => parser.parse(new TextDecoder().decode(long))),
      },
    },
  ];
}

const lineOf = ({
  Key,
  LastModified,
  ETag,
  Size,
}: {
  Key: string;
  LastModified: string;
  ETag: string;
  Size: number;
}) =>
  `<Contents><Key>${Key}</Key><LastModified>${LastModified}</LastModified><ETag>&quot;${ETag}&quot;</ETag><Size>${Size}</Size><StorageClass>STANDARD</StorageClass></Contents>`;
