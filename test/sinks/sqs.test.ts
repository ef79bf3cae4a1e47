/** Events reach a FIFO queue of a real ElasticMQ; other queues keep no order. */
import { type AddressInfo, connect } from 'node:net';
import { createServer } from 'node:tls';
import { afterAll, beforeAll } from 'vitest';
import { sinkLaws } from '../support/sink-laws.ts';
import { mutualTls } from '../support/sink-tls.ts';

let count = 0;

interface Message {
  readonly Body: string;
  readonly ReceiptHandle: string;
  readonly MessageAttributes?: { readonly traceparent?: { readonly StringValue: string } };
}

/** ElasticMQ speaks no TLS: a server before it does. */
const front = createServer(mutualTls, (socket) => {
  const behind = connect(behindFront, '127.0.0.1');
  socket.pipe(behind).pipe(socket);
  socket.on('error', () => behind.destroy());
  behind.on('error', () => socket.destroy());
});
let behindFront = 0;
beforeAll(() => new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve)));
afterAll(() => void front.close());

sinkLaws({
  server: 'elasticmq',
  messaging: ['aws_sqs', 'SendMessageBatch'],
  async tlsUrl(port, url) {
    behindFront = port;
    return url.replace(
      `http://127.0.0.1:${port}`,
      `https://127.0.0.1:${(front.address() as AddressInfo).port}`,
    );
  },
  noPassword: 'ElasticMQ checks no signatures',
  forgets: 'ElasticMQ keeps its queues in memory',
  async open(port) {
    count += 1;
    const origin = `http://127.0.0.1:${port}`;
    const call = async (action: string, body: object): Promise<Record<string, unknown>> => {
      const reply = await fetch(origin, {
        method: 'POST',
        headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${action}` },
        body: JSON.stringify(body),
      });
      const text = await reply.text();
      // DeleteMessage has an empty answer.
      return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
    };
    const made = await call('CreateQueue', {
      QueueName: `events-${count}.fifo`,
      Attributes: { FifoQueue: 'true' },
    });
    const url = String(made['QueueUrl']);
    const all: string[] = [];
    const causes: string[] = [];
    return {
      target: { type: 'sqs', url, region: 'us-east-1', username: 'key', password: 'secret' },
      async bodies() {
        for (;;) {
          const { Messages = [] } = (await call('ReceiveMessage', {
            QueueUrl: url,
            MaxNumberOfMessages: 10,
            AttributeNames: ['SentTimestamp'],
            MessageAttributeNames: ['traceparent'],
          })) as { Messages?: readonly Message[] };
          if (Messages.length === 0) return [...all];
          for (const { Body, ReceiptHandle, MessageAttributes } of Messages) {
            all.push(Body);
            causes.push(MessageAttributes?.traceparent?.StringValue ?? '');
            await call('DeleteMessage', { QueueUrl: url, ReceiptHandle });
          }
        }
      },
      causes: async () => [...causes],
      async [Symbol.asyncDispose]() {},
    };
  },
});
