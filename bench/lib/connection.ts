/**
 * A cheap keep-alive HTTP/1.1 client on a raw socket: bodies are counted, and kept only on request. Where a reply says that the connection
 * ends with it, the next request has a new socket.
 */
import net from 'node:net';

export interface Answer {
  readonly status: number;
  readonly head: string;
  readonly bytes: number;
  /** The body, if the caller asked to keep it. */
  readonly text: string;
}

export interface SendOptions {
  readonly keep?: boolean;
  readonly isHead?: boolean;
}

interface Waiter {
  readonly options: SendOptions;
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

/** The size of one write. A body that is written in one call would be copied whole into the kernel's queue. */
const stepBytes = 1024 * 1024;
const headEnd = Buffer.from('\r\n\r\n');

interface Address {
  readonly host: string;
  readonly port: number;
}

export class Connection {
  readonly #address: Address;
  #socket: net.Socket;
  #waiter: Waiter | undefined;
  #head = '';
  #pending: Buffer = Buffer.alloc(0);
  #status = 0;
  /** Bytes still to come; -1 while the head is read; Infinity for a chunked body. */
  #left = -1;
  #bytes = 0;
  #kept: Buffer[] = [];
  #error: Error | undefined;

  /** Whether the last reply said that the server closes the connection. */
  #isOver = false;

  private constructor(address: Address, socket: net.Socket) {
    this.#address = address;
    this.#socket = socket;
  }

  static async open(address: Address): Promise<Connection> {
    let connection: Connection | undefined;
    const socket = await connect(address, (data) => connection?.take(data));
    connection = new Connection(address, socket);
    connection.#watch(socket);
    return connection;
  }

  #watch(socket: net.Socket): void {
    const fail = (error: Error): void => {
      if (socket === this.#socket && !this.#isOver) this.#fail(error);
    };
    socket.on('error', fail);
    socket.on('close', () => fail(new Error('the server closed the connection')));
  }

  async #reopen(): Promise<void> {
    const socket = await connect(this.#address, (data) => this.take(data));
    this.#socket.destroy();
    this.#socket = socket;
    this.#isOver = false;
    this.#watch(socket);
  }

  send(parts: readonly (string | Uint8Array)[], options: SendOptions = {}): Promise<Answer> {
    if (this.#error !== undefined) return Promise.reject(this.#error);
    if (this.#isOver) return this.#reopen().then(() => this.send(parts, options));
    const answered = new Promise<Answer>((resolve, reject) => {
      this.#waiter = { options, resolve, reject };
    });
    this.#write(parts);
    return answered;
  }

  #write(parts: readonly (string | Uint8Array)[]): void {
    const socket = this.#socket;
    if (parts.length === 1) {
      socket.write(parts[0] as string | Uint8Array, 'latin1');
      return;
    }
    socket.cork();
    for (const part of parts) {
      if (typeof part === 'string') socket.write(part, 'latin1');
      else
        for (let at = 0; at < part.length; at += stepBytes) socket.write(part.subarray(at, at + stepBytes));
    }
    socket.uncork();
  }

  take(data: Buffer): void {
    if (this.#left === -1) {
      const all = this.#pending.length === 0 ? data : Buffer.concat([this.#pending, data]);
      const end = all.indexOf(headEnd);
      if (end < 0) {
        this.#pending = Buffer.from(all);
        return;
      }
      this.#pending = Buffer.alloc(0);
      this.#begin(all.toString('latin1', 0, end + 2));
      this.#body(all.subarray(end + 4));
    } else this.#body(data);
  }

  #begin(head: string): void {
    this.#status = Number(head.slice(9, 12));
    this.#head = head;
    this.#bytes = 0;
    this.#kept = [];
    const isEmpty = this.#waiter?.options.isHead === true || this.#status === 204 || this.#status === 304;
    const length = headerOf(head, 'content-length');
    if (isEmpty) this.#left = 0;
    else if (length !== undefined) this.#left = Number(length);
    else this.#left = Number.POSITIVE_INFINITY;
  }

  #body(data: Buffer): void {
    this.#bytes += data.length;
    if (this.#waiter?.options.keep === true || this.#left === Number.POSITIVE_INFINITY) {
      this.#kept.push(Buffer.from(data));
    }
    if (this.#left === Number.POSITIVE_INFINITY) {
      const tail = Buffer.concat(this.#kept.slice(-2)).subarray(-5).toString('latin1');
      if (tail !== '0\r\n\r\n') return;
    } else {
      this.#left -= data.length;
      if (this.#left > 0) return;
    }
    this.#end();
  }

  #end(): void {
    const waiter = this.#waiter;
    if (headerOf(this.#head, 'connection') === 'close') this.#isOver = true;
    const text = waiter?.options.keep === true ? Buffer.concat(this.#kept).toString() : '';
    this.#left = -1;
    this.#waiter = undefined;
    this.#kept = [];
    waiter?.resolve({ status: this.#status, head: this.#head, bytes: this.#bytes, text });
  }

  #fail(error: Error): void {
    this.#error ??= error;
    this.#waiter?.reject(error);
    this.#waiter = undefined;
  }

  close(): void {
    this.#error ??= new Error('closed');
    this.#socket.destroy();
  }
}

/** @param take called with what arrives, which is in one buffer: to allocate for each 64 KiB would be most of the cost */
function connect({ host, port }: Address, take: (data: Buffer) => void): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const buffer = Buffer.allocUnsafeSlow(256 * 1024);
    const callback = (count: number): boolean => {
      take(buffer.subarray(0, count));
      return true;
    };
    const socket = net.connect({ host, port, noDelay: true, onread: { buffer, callback } });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

export function headerOf(head: string, name: string): string | undefined {
  const at = head.toLowerCase().indexOf(`\r\n${name}:`);
  if (at < 0) return undefined;
  const from = at + name.length + 3;
  return head.slice(from, head.indexOf('\r\n', from)).trim();
}
