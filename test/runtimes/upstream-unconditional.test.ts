/**
 * The mark of an installation in a bucket of an upstream without conditional writes: one that answers them with 501, and
 * one that ignores their conditions.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startUpstreamServer, type UpstreamEngine } from '../support/engines/upstream.ts';
import {
  type Asked,
  type Fault,
  type FaultyUpstream,
  startFaultyUpstream,
} from '../support/faulty-upstream.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { startServer, type TestServer, testCredentials } from '../support/server.ts';
import { signer } from '../support/sign.ts';

const foreign = /bucket \S+ at \S*installation\.json belong to installation [0-9a-f]{32}/;

let upstream: UpstreamEngine;
let proxy: FaultyUpstream;
let root: string;
beforeEach(async () => {
  upstream = await startUpstreamServer();
  proxy = await startFaultyUpstream(upstream.environment['SVC_UPSTREAM_ENDPOINT'] ?? '');
  root = await mkdtemp(join(tmpdir(), 'sluice-upstream-unconditional-'));
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

const start = (name: string, args: string[] = []): Promise<TestServer> =>
  startServer({
    dataDir: join(root, name),
    env: {
      ...upstream.environment,
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: upstream.bucket,
      SVC_UPSTREAM_ENDPOINT: proxy.url,
      SVC_FSYNC: 'never',
      SVC_WORKERS: '',
    },
    args,
  });

async function use({ url, credentials }: TestServer): Promise<string> {
  const client = loadClient(url, credentials.root, 1);
  try {
    await client.send({ method: 'PUT', path: pathOf('bucket') });
    await client.expect({ method: 'PUT', path: pathOf('bucket', 'key'), body: Buffer.from('content') });
    return (await client.expect({ path: pathOf('bucket', 'key') })).text;
  } finally {
    client.close();
  }
}

async function serve(name: string, args: string[] = []): Promise<string> {
  const server = await start(name, args);
  try {
    return await use(server);
  } finally {
    await server.stop();
  }
}

/** The message of a start that is refused. */
const refused = (name: string, args: string[] = []): Promise<string> =>
  serve(name, args).catch((error: Error) => {
    expect(error.message).toContain('ended with 2');
    return error.message;
  });

const conditions = ['if-match', 'if-none-match'];
const isMark = ({ target }: Asked): boolean => target.endsWith('/installation.json');
const isConditional = (asked: Asked): boolean =>
  asked.method === 'PUT' && conditions.some((name) => asked.headers[name] !== undefined);
const conditionsOf = (asked: readonly Asked[]): readonly string[] =>
  asked
    .filter((each) => each.method === 'PUT' && isMark(each))
    .map(({ headers }) => conditions.find((name) => headers[name] !== undefined) ?? 'none');

const unsupported: Fault = { status: 501, code: 'NotImplemented' };

/** Signs the request again without its conditions, so that the upstream always writes. */
const ignored: Fault = {
  asked({ method, target, headers }) {
    const { accessKey, secretKey } = testCredentials.root;
    const sign = signer({ accessKey, secretKey, host: headers.host ?? '' });
    const type = { 'content-type': headers['content-type'] ?? '' };
    const request = sign.request({ method, path: target, headers: type, payload: 'unsigned' });
    return { ...Object.fromEntries(request.headers), 'content-length': headers['content-length'] ?? '' };
  },
};

test.each([
  [
    'answers conditional writes with 501 NotImplemented',
    unsupported,
    ['if-none-match', 'none'],
    ['if-match', 'none'],
  ],
  ['ignores If-Match and If-None-Match', ignored, ['if-none-match'], ['if-match']],
])(
  'an upstream that %s: its bucket belongs to one installation, and --init takes it over',
  async (_, fault, first, takeover) => {
    proxy.fail(isConditional, fault);
    expect(await serve('first')).toBe('content');
    expect(conditionsOf(proxy.seen())).toEqual(first);
    const server = await start('first');
    try {
      expect(await use(server)).toBe('content');
      expect(await refused('second')).toMatch(foreign);
      expect(conditionsOf(proxy.seen())).toEqual([]);
      expect(await serve('second', ['--init'])).toBe('content');
      expect(conditionsOf(proxy.seen())).toEqual(takeover);
      // The new mark does not stop a running gateway (docs/gaps.md, U11).
      expect(await use(server)).toBe('content');
    } finally {
      await server.stop();
    }
    expect(await refused('first')).toMatch(foreign);
    expect(await serve('second')).toBe('content');
  },
);

test.each([
  ['start', [], false],
  ['take over', ['--init'], true],
])(
  'two gateways that %s in a bucket whose upstream answers conditional writes with 501: the mark that was written first stays',
  async (_, args: string[], wasMarked) => {
    if (wasMarked) expect(await serve('former')).toBe('content');
    const other = 'ab'.repeat(16);
    let isWritten = false;
    const mark: Asked[] = [];
    const writeOther = async (): Promise<void> => {
      const client = loadClient(upstream.environment['SVC_UPSTREAM_ENDPOINT'] ?? '', testCredentials.root, 1);
      const body = Buffer.from(JSON.stringify({ id: other, format: 1 }));
      try {
        await client.expect({ method: 'PUT', path: mark[0]?.target ?? '', body });
        isWritten = true;
      } finally {
        client.close();
      }
    };
    // The other gateway writes its mark after this one has read the present mark and before its write.
    const matches = (asked: Asked): boolean => {
      if (!isConditional(asked)) return false;
      mark.push(asked);
      return true;
    };
    proxy.fail(matches, { ...unsupported, before: writeOther }, 1);
    expect(await refused('late', args)).toContain(`names installation ${other}`);
    expect(isWritten).toBe(true);
    expect(await refused('former')).toContain(`belong to installation ${other}`);
  },
);
