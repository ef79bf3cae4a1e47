/** A whole request through `gateway.handle`, without a socket, beside the hashing that it needs. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGateway } from '../../src/admin-gateway.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { Gateway } from '../../src/gateway.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { nodeTelemetry } from '../../src/runtime/processes/node-telemetry.ts';
import { measureFloors } from '../lib/floors.ts';
import { incomingOf } from '../lib/incoming.ts';
import { microsOf, type Piece } from '../lib/micro.ts';
import { benchCredential, Signer, sha256Of } from '../lib/sign.ts';

const body = new Uint8Array(4096).fill(3);
const digest = sha256Of(body);
const signer = new Signer('localhost:9000');

async function send(gateway: Gateway, head: string, content?: Uint8Array): Promise<void> {
  const reply = await gateway.handle(incomingOf(head, content));
  if (reply.status >= 300) throw new Error(`${reply.status} ${String(reply.body)}`);
}

async function measureOn(name: string, gateway: Gateway): Promise<Piece[]> {
  await send(gateway, signer.header({ method: 'PUT', path: '/bench' }));
  const heads = (method: string, payloadHash?: string, length?: number): string[] =>
    Array.from({ length: 512 }, (_, i) =>
      signer.header({
        method,
        path: `/bench/object-${i}`,
        ...(payloadHash === undefined ? {} : { payloadHash }),
        ...(length === undefined ? {} : { length }),
      }),
    );
  const floors = measureFloors(tmpdir());
  const signing = { name: 'hashing of the signature', micros: floors.signatureMicros };
  const hashing = { name: '… and of the body', micros: floors.signatureMicros + floors.hashSmallBodyMicros };
  let turn = 0;
  const over = (all: string[], content?: Uint8Array) => () =>
    send(gateway, all[turn++ % all.length] as string, content);
  const put = await microsOf(over(heads('PUT', digest, body.length), body));
  const get = await microsOf(over(heads('GET')));
  const head = await microsOf(over(heads('HEAD')));
  return [
    { name: `handle, put 4 KiB, ${name}`, micros: put, floor: hashing },
    { name: `handle, get 4 KiB, ${name}`, micros: get, floor: signing },
    { name: `handle, head, ${name}`, micros: head, floor: signing },
  ];
}

export async function handle(): Promise<Piece[]> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-micro-'));
  const pieces: Piece[] = [];
  const variants = {
    'memory + noop': configWith({ SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'noop' }),
    'embedded + file, unflushed': configWith({ SVC_DATA_DIR: directory, SVC_FSYNC: 'never' }),
  };
  for (const [name, config] of Object.entries(variants)) {
    const credentials = [benchCredential];
    const { context, close } = await compose(config, { credentials, telemetry: nodeTelemetry(config) });
    pieces.push(...(await measureOn(name, createGateway(context))));
    await close();
  }
  rmSync(directory, { recursive: true, force: true });
  return pieces;
}
