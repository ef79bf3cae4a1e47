/** The text of a trace, as `sluice admin trace` prints it. */
import { expect, test } from 'vitest';
import type { TraceDocument } from '../../src/ports/trace.ts';
import { formatTraces } from '../../src/runtime/cli/cli-admin.ts';

const trace: TraceDocument = {
  requestId: '57D99EDFDCE3A2BF',
  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
  kept: 'failed',
  operation: 'PutObject',
  bucket: 'bucket',
  key: 'a\u001b[31mkey',
  status: 503,
  code: 'ServiceUnavailable',
  startedAt: '2026-11-25T01:00:00.000Z',
  durationMs: 100,
  process: 'host:1',
  kind: 'server',
  headMs: 99,
  attributes: { 'http.request.method': 'PUT' },
  spanId: '00000000000000aa',
  links: [],
  spans: [
    { name: 'identify', about: '', id: '1', parent: '00000000000000aa', startMs: 0, durationMs: 1 },
    { name: 'handle', about: '', id: '2', parent: '00000000000000aa', startMs: 1, durationMs: 98 },
    {
      name: 'metadata.commit',
      about: 'objects',
      id: '3',
      parent: '2',
      startMs: 50,
      durationMs: 49,
      error: 'StoreUnavailable',
    },
    { name: 'data.write', about: 'default', id: '4', parent: '2', startMs: 60 },
  ],
  leftOut: 2,
};

test('each span is below its parent, with its time, its place and its failure', () => {
  expect(formatTraces([trace]).split('\n')).toEqual([
    'PutObject bucket/a\ufffd[31mkey  503 ServiceUnavailable',
    '100.0 ms from 2026-11-25T01:00:00.000Z, head of the reply after 99.0 ms, in host:1',
    'request 57D99EDFDCE3A2BF, trace 4bf92f3577b34da6a3ce929d0e0e4736',
    'http.request.method=PUT',
    '    start        ms',
    '     0.00      1.00 |█                               | identify',
    '     1.00      98.0 |████████████████████████████████| handle',
    '     50.0      49.0 |                ████████████████|   metadata.commit objects  failed: StoreUnavailable',
    '     60.0      40.0 |                   █████████████|   data.write default  runs',
    '2 further spans are not kept',
    '',
  ]);
});
