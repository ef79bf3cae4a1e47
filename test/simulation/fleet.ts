/** Gateways over one store, which a test pauses, kills and replaces while clients work. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type LoadClient, loadClient } from '../support/load-client.ts';
import type { TestServer } from '../support/server.ts';
import type { SharedStore } from './shared-store.ts';

/** The time limit of a start that creates a schema on a ring. */
const startMs = 240_000;

/** Gateways that can be replaced: a client asks for its present gateway before each request. */
export class Fleet implements AsyncDisposable {
  readonly #store: Pick<SharedStore, 'gateway'>;
  readonly #settings: Readonly<Record<string, string>>;
  readonly #members: { server: TestServer; client: LoadClient }[] = [];

  /** Gateways that were paused and killed so far. */
  readonly faults = { pauses: 0, kills: 0 };

  /** @param settings of every gateway */
  constructor(store: Pick<SharedStore, 'gateway'>, settings: Readonly<Record<string, string>> = {}) {
    this.#store = store;
    this.#settings = settings;
  }

  get size(): number {
    return this.#members.length;
  }

  async grow(): Promise<void> {
    this.#members.push(await this.#member());
  }

  async #member(): Promise<{ server: TestServer; client: LoadClient }> {
    const server = await this.#store.gateway(this.#settings, startMs);
    return { server, client: loadClient(server.url, server.credentials.root) };
  }

  client(at: number): LoadClient {
    return (this.#members[at] as { client: LoadClient }).client;
  }

  /** Pauses and resumes every process of a gateway. */
  async pause(at: number, forMs: number): Promise<void> {
    const { server } = this.#members[at] as { server: TestServer };
    this.faults.pauses += 1;
    const group = -(server.process.pid as number);
    process.kill(group, 'SIGSTOP');
    await sleep(forMs);
    process.kill(group, 'SIGCONT');
  }

  /** Kills a gateway (`kill -9`) and starts another in its place, while the others continue. @param between runs before that start */
  async replace(at: number, between?: () => Promise<void>): Promise<void> {
    const former = this.#members[at] as { server: TestServer; client: LoadClient };
    this.faults.kills += 1;
    await former.server.kill9();
    former.client.close();
    await between?.();
    this.#members[at] = await this.#member();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { server, client } of this.#members) {
      client.close();
      await server.stop();
    }
  }
}
