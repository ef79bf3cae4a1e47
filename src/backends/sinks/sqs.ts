/** Sends messages to a queue of SQS, ten at a time. In a FIFO queue (`….fifo`) each object is a group, so its events keep their order. */
import type { Delivery, EventSink, SinkFailure, SinkMessage, SinkTarget } from '../../ports/event-sink.ts';
import { amz } from '../../protocol/dialect.ts';
import { signer } from '../../signing/sign-request.ts';
import { endedAfterConnect, guardedAgent } from '../egress.ts';
import { describe, readTls, waves } from './session-sink.ts';
import { sharedSink, sinkTurnsMax } from './shared-sink.ts';
import type { SinkOptions } from './sink-options.ts';

/** Entries of a request, a limit of the protocol. Ten events stay below its limit of 256 KiB. */
const entriesMax = 10;
const answerMax = 64 * 1024;
interface Answer {
  readonly Successful?: readonly { readonly Id: string }[];
  readonly Failed?: readonly {
    readonly Id: string;
    readonly Code?: string;
    readonly Message?: string;
    readonly SenderFault?: boolean;
  }[];
}

export async function openSqs(target: SinkTarget, options: SinkOptions): Promise<EventSink> {
  const { mayReach, timeoutMs, hasher, clock } = options;
  const { ca, cert, key } = await readTls(target, '');
  const agent = guardedAgent({ mayReach, timeoutMs, connections: sinkTurnsMax, ca, cert, key });
  const { origin, host, pathname } = new URL(target.url);
  const isFifo = pathname.endsWith('.fifo');
  const sign = signer({
    hasher,
    clock,
    accessKey: target.username ?? '',
    secretKey: target.password ?? '',
    region: target.region ?? '',
    service: 'sqs',
  });

  const toEntry = ({ id, subject, body, traceparent }: SinkMessage, index: number) => ({
    Id: String(index),
    MessageBody: body,
    ...(traceparent === undefined
      ? {}
      : { MessageAttributes: { traceparent: { DataType: 'String', StringValue: traceparent } } }),
    ...(isFifo
      ? { MessageGroupId: hasher.sha256Hex(subject), MessageDeduplicationId: hasher.sha256Hex(id) }
      : {}),
  });

  async function send(wave: readonly SinkMessage[], signal: AbortSignal): Promise<Delivery> {
    const late = AbortSignal.timeout(timeoutMs);
    try {
      const body = JSON.stringify({ QueueUrl: target.url, Entries: wave.map(toEntry) });
      const { target: path, headers } = sign({
        method: 'POST',
        path: '/',
        query: [],
        headers: {
          host,
          'content-type': 'application/x-amz-json-1.0',
          [`${amz.headerPrefix}target`]: 'AmazonSQS.SendMessageBatch',
        },
        payloadHash: hasher.sha256Hex(body),
      });
      const both = AbortSignal.any([signal, late]);
      const reply = await agent.request({ origin, path, method: 'POST', headers, body, signal: both });
      return classifyReply(wave.length, { status: reply.statusCode, text: await readAnswer(reply.body) });
    } catch (cause) {
      signal.throwIfAborted();
      const error = late.aborted
        ? `the sink did not answer within ${timeoutMs} ms`
        : `the sink cannot be reached: ${describe(cause)}`;
      const kind = late.aborted || endedAfterConnect(cause) ? 'lost' : 'unavailable';
      return { delivered: 0, failure: { kind, error } };
    }
  }

  const sink: EventSink = {
    async deliver(messages, signal): Promise<Delivery> {
      let delivered = 0;
      for (const wave of waves(messages, entriesMax)) {
        const answer = await send(wave, signal).catch((cause: unknown) => {
          if (delivered === 0) throw cause;
          return undefined;
        });
        if (answer === undefined) return { delivered };
        delivered += answer.delivered;
        if (answer.failure !== undefined) return { delivered, failure: answer.failure };
      }
      return { delivered };
    },
    close: () => agent.destroy(),
  };
  return sharedSink(sink, { clock });
}

async function readAnswer(body: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > answerMax) throw new Error(`its answer is longer than ${answerMax} bytes`);
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** An entry counts as delivered only when the answer names it among the successful ones. */
function classifyReply(
  count: number,
  { status, text }: { readonly status: number; readonly text: string },
): Delivery {
  if (status !== 200) return { delivered: 0, failure: refusal(status, text) };
  const { Successful = [], Failed = [] } = JSON.parse(text) as Answer;
  const taken = new Set(Successful.map(({ Id }) => Id));
  let delivered = 0;
  while (delivered < count && taken.has(String(delivered))) delivered += 1;
  if (delivered === count) return { delivered };
  const failed = Failed.find(({ Id }) => Id === String(delivered));
  const error = `the sink refused a message: ${failed?.Code ?? 'no reason'} ${failed?.Message ?? ''}`.trim();
  const isInvalid = failed?.Code === 'InvalidMessageContents' || failed?.Code === 'MessageTooLong';
  return { delivered, failure: { kind: isInvalid ? 'refused' : 'failed', error } };
}

function refusal(status: number, text: string): SinkFailure {
  const type = /"__type"\s*:\s*"([^"]{1,200})"/.exec(text)?.[1]?.replace(/^.*#/, '') ?? '';
  const hint =
    status === 403 || /Signature|InvalidClientTokenId|AccessDenied|UnrecognizedClient/.test(type)
      ? ': check username (the access key), password (the secret key) and region of the target'
      : /NonExistentQueue|QueueDoesNotExist/.test(type)
        ? ': check the URL of the target, which is that of the queue'
        : '';
  return { kind: 'unavailable', error: `the sink answered ${`${status} ${type}`.trim()}${hint}` };
}
