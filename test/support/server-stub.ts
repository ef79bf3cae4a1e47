/** The real Node listener in front of a test's handler, and plain sockets to talk to it. */
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { configWith } from '../../src/config/read-config.ts';
import type { Config } from '../../src/config.ts';
import type { Gateway } from '../../src/gateway.ts';
import { type Fields, silentTelemetry } from '../../src/ports/telemetry.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { type ServeOptions, type Serving, serve } from '../../src/runtime/node.ts';

export interface StubServer extends Serving {
  readonly port: number;
  /** Messages that the listener logged, oldest first. */
  readonly logged: readonly string[];
  /** The fields of these messages. */
  readonly fields: readonly (Fields | undefined)[];
}

export async function serveStub(
  handle: Gateway['handle'],
  settings: Partial<Config> & Pick<ServeOptions, 'tlsIntervalMs'> = {},
): Promise<StubServer> {
  const { tlsIntervalMs, ...config } = settings;
  const logged: string[] = [];
  const fields: (Fields | undefined)[] = [];
  const serving = await serve({
    gateway: { handle },
    config: {
      ...configWith({ SVC_LISTEN: '127.0.0.1:0', SVC_IDLE_TIMEOUT: '10s', SVC_SHUTDOWN_TIMEOUT: '200ms' }),
      ...config,
    },
    telemetry: {
      ...silentTelemetry,
      log(_level, message, said) {
        logged.push(message);
        fields.push(said);
      },
    },
    ...(tlsIntervalMs === undefined ? {} : { tlsIntervalMs }),
  });
  onTestFinished(() => serving.close());
  return { ...serving, port: Number(new URL(serving.url).port), logged, fields };
}

export const text = (body: string, status = 200): Reply => ({ status, headers: [], body });

/** A socket that collects its answers in `seen`. */
export class Talk {
  readonly socket: Socket;
  #seen = '';
  #closed: 'open' | 'ended' | 'reset' = 'open';
  readonly #watchers = new Set<() => void>();

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.setEncoding('latin1');
    this.socket.on('data', (data: string) => {
      this.#seen += data;
      this.#tell();
    });
    this.socket.on('end', () => this.#close('ended'));
    this.socket.on('error', () => this.#close('reset'));
    this.socket.on('close', () => this.#close('ended'));
    onTestFinished(() => {
      this.socket.destroy();
    });
  }

  say(text: string): this {
    this.socket.write(text, 'latin1');
    return this;
  }
  get seen(): string {
    return this.#seen;
  }
  get state(): 'open' | 'ended' | 'reset' {
    return this.#closed;
  }
  /** Waits until the received text contains a string so many times. */
  async sees(text: string, times = 1): Promise<string> {
    await this.#until(() => this.#seen.split(text).length > times, `"${text}" ${times} times`);
    return this.#seen;
  }
  async ends(): Promise<string> {
    await this.#until(() => this.#closed !== 'open', 'the end of the connection');
    return this.#seen;
  }

  #close(how: 'ended' | 'reset'): void {
    if (this.#closed === 'open') this.#closed = how;
    this.#tell();
  }
  #tell(): void {
    for (const watcher of this.#watchers) watcher();
  }
  #until(holds: () => boolean, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (!holds() && this.#closed === 'open') return;
        this.#watchers.delete(look);
        clearTimeout(timer);
        if (holds()) resolve();
        else reject(new Error(`${this.#closed} before ${what}; saw: ${this.#seen.slice(-500)}`));
      };
      const timer = setTimeout(() => {
        this.#watchers.delete(look);
        reject(new Error(`waited in vain for ${what}; saw: ${this.#seen.slice(-500)}`));
      }, 30_000);
      this.#watchers.add(look);
      look();
    });
  }
}
