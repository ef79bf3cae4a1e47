/**
 * How many bytes of a connection the peer has not acknowledged yet. Node reports progress only when the kernel accepts more bytes, which
 * happens when a third of its buffer is free: with a slow reader that is up to a megabyte later. Linux shows the length of each
 * connection's queue in /proc/net/tcp and tcp6.
 */
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/** One read of these files serves all connections that ask within this time: they list every connection of the machine. */
const freshMs = 500;
const paths = ['/proc/net/tcp', '/proc/net/tcp6'];

type Queues = ReadonlyMap<string, number>;
let look: { readonly at: number; readonly queues: Promise<Queues | undefined> } | undefined;

/** @returns undefined where the platform does not tell */
export async function unacknowledgedBytes(socket: Socket): Promise<number | undefined> {
  const { localPort, remotePort, remoteAddress } = socket;
  if (localPort === undefined || remotePort === undefined || remoteAddress === undefined) return undefined;
  const now = performance.now();
  if (look === undefined || now - look.at > freshMs) look = { at: now, queues: readQueues() };
  const queues = await look.queues;
  return queues && (queues.get(`${localPort} ${remotePort} ${addressWords(remoteAddress)}`) ?? 0);
}

/** The connections that have something queued. */
async function readQueues(): Promise<Queues | undefined> {
  const texts = await Promise.all(paths.map((path) => readFile(path, 'latin1').catch(() => undefined)));
  if (texts.every((text) => text === undefined)) return undefined;
  const queues = new Map<string, number>();
  for (const line of texts.flatMap((text) => (text ?? '').split('\n').slice(1))) {
    const [, local = '', remote = '', , sizes = ''] = line.trim().split(' ');
    const bytes = Number.parseInt(sizes, 16);
    if (!(bytes > 0)) continue;
    const [address = '', port = ''] = remote.split(':');
    const localPort = Number.parseInt(local.split(':')[1] ?? '', 16);
    queues.set(`${localPort} ${Number.parseInt(port, 16)} ${stripMapped(address)}`, bytes);
  }
  return queues;
}

/** IPv4 addresses that are mapped to IPv6 count as IPv4, in both files. */
const mapped = '0000000000000000FFFF0000';
const stripMapped = (words: string): string =>
  words.startsWith(mapped) ? words.slice(mapped.length) : words;

const hex = (value: number): string => value.toString(16).toUpperCase().padStart(2, '0');

/** An address as the kernel writes it: words of four bytes, each with its last byte first. */
function addressWords(address: string): string {
  const four = address.split(':').at(-1) ?? '';
  if (four.includes('.')) return four.split('.').map(Number).reverse().map(hex).join('');
  const [head = '', tail] = (address.split('%')[0] as string).split('::');
  const groupsOf = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const [before, after] = [groupsOf(head), groupsOf(tail ?? '')];
  const zeros = Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0');
  const bytes = [...before, ...zeros, ...after].flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
  let words = '';
  for (let at = 0; at < bytes.length; at += 4)
    words += bytes
      .slice(at, at + 4)
      .reverse()
      .map(hex)
      .join('');
  return words;
}
