/** The examples that the public S3 documentation signs, "Signature Calculations", with their published results. */
import type { RequestSpec } from '../support/sign.ts';

export const exampleKey = {
  accessKey: 'AKIAIOSFODNN7EXAMPLE',
  secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1',
} as const;
export const exampleTime = Date.UTC(2013, 4, 24);

export interface PublishedExample {
  readonly name: string;
  readonly host: string;
  readonly spec: RequestSpec;
  readonly signature: string;
  /** The signatures of the chunks and of the trailer. */
  readonly further?: readonly string[];
}

const bucketHost = 'examplebucket.s3.amazonaws.com';
const chunkObject: RequestSpec = {
  method: 'PUT',
  path: '/examplebucket/chunkObject.txt',
  headers: { 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
  body: 'a'.repeat(65 * 1024),
};

export const publishedExamples: readonly PublishedExample[] = [
  {
    name: 'GET object',
    host: bucketHost,
    spec: { path: '/test.txt', headers: { range: 'bytes=0-9' } },
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  {
    name: 'PUT object',
    host: bucketHost,
    spec: {
      method: 'PUT',
      path: '/test%24file.text',
      headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
      body: 'Welcome to Amazon S3.',
    },
    signature: '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  },
  {
    name: 'GET bucket lifecycle',
    host: bucketHost,
    spec: { path: '/', query: { lifecycle: '' } },
    signature: 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  },
  {
    name: 'GET bucket (list objects)',
    host: bucketHost,
    spec: { path: '/', query: { 'max-keys': '2', prefix: 'J' } },
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
  {
    name: 'PUT object in chunks',
    host: 's3.amazonaws.com',
    spec: {
      ...chunkObject,
      headers: { ...chunkObject.headers, 'content-length': '66824' },
      payload: 'streaming',
    },
    signature: '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9',
    further: [
      'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
      '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
      'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9',
    ],
  },
  {
    name: 'PUT object in chunks with a trailing checksum',
    host: 's3.amazonaws.com',
    spec: {
      ...chunkObject,
      payload: 'streaming-trailer',
      trailers: { 'x-amz-checksum-crc32c': 'sOO8/Q==' },
    },
    signature: '106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e',
    further: [
      'b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2',
      '1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7',
      '2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992',
      'd81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435',
    ],
  },
];

/** "Authenticating Requests: Using Query Parameters". */
export const publishedPresigned = {
  host: bucketHost,
  path: '/test.txt',
  expires: 86_400,
  signature: 'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
} as const;
