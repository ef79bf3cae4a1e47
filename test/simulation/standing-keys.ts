/** Keys that no client changes while everything around them moves: every answer about them shows what was written. */
import { elements, type LoadClient, pathOf, Unanswered } from '../support/load-client.ts';
import { bodyOf, bytesOf, md5Hex, type State, type Version } from '../support/load-model.ts';
import type { Models } from './kill-load.ts';

const bucket = 'versioned';
const prefix = 'standing/';
const atOnce = 8;
/** A small page, so that a listing needs many of them. */
const pageSize = 23;

/** A 503, which gives no information about the keys. */
class Away extends Error {}

export class StandingKeys {
  readonly #client: LoadClient;
  readonly #keys = new Map<string, State>();
  readonly faults: string[] = [];
  /** Listings and reads that were answered. */
  looks = 0;

  constructor(client: LoadClient) {
    this.#client = client;
  }

  /** Creates keys with two versions each. Some lose the older one, some get a delete marker. The models include them. */
  async fill(count: number, models: Models): Promise<void> {
    const names = Array.from(
      { length: count },
      (_, each) => `${prefix}${each % 2 === 0 ? 'é' : 'key'} ${each}`,
    );
    let next = 0;
    const filling = Array.from({ length: atOnce }, async () => {
      for (let each = next++; each < count; each = next++) {
        const key = names[each] as string;
        const state = await this.#make(key, each);
        this.#keys.set(key, state);
        models.get(bucket)?.settle(key, state);
      }
    });
    await Promise.all(filling);
  }

  async #make(key: string, each: number): Promise<State> {
    const older = await this.#put(key, 2 * each);
    const newer = await this.#put(key, 2 * each + 1);
    const path = pathOf(bucket, key);
    if (each % 5 === 0) {
      await this.#client.expect({ method: 'DELETE', path, query: { versionId: older.id ?? '' } });
      return [newer];
    }
    if (each % 3 > 0) return [newer, older];
    const { headers } = await this.#client.expect({ method: 'DELETE', path });
    return [{ id: String(headers['x-amz-version-id']), etag: '' }, newer, older];
  }

  async #put(key: string, seed: number): Promise<Version> {
    const content = { seed, size: 100 };
    const body = bytesOf(content);
    const { headers } = await this.#client.expect({ method: 'PUT', path: pathOf(bucket, key), body });
    return { id: String(headers['x-amz-version-id']), contents: [content], etag: md5Hex(body) };
  }

  /** Lists and reads until the signal aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    const all = [() => this.#list(), () => this.#listVersions(), () => this.#read()];
    await Promise.all(
      all.map(async (look) => {
        while (!signal.aborted) {
          try {
            await look();
            this.looks += 1;
          } catch (cause) {
            if (!(cause instanceof Away) && !(cause instanceof Unanswered)) throw cause;
            await new Promise((resolve) => setTimeout(resolve, 50));
          }
        }
      }),
    );
  }

  async #ask(spec: Parameters<LoadClient['send']>[0]) {
    const answer = await this.#client.send(spec);
    if (answer.status >= 500) throw new Away(`${answer.status}`);
    return answer;
  }

  #compare(what: string, seen: readonly string[], wanted: readonly string[]): void {
    const missing = wanted.filter((each) => !seen.includes(each));
    const surplus = seen.filter((each, at) => seen.indexOf(each) !== at || !wanted.includes(each));
    if (missing.length > 0 || surplus.length > 0)
      this.faults.push(`${what}: without ${JSON.stringify(missing)}, and with ${JSON.stringify(surplus)}`);
  }

  async #list(): Promise<void> {
    const seen: string[] = [];
    for (let token: string | undefined = ''; token !== undefined; ) {
      const query = { 'list-type': '2', prefix, 'max-keys': `${pageSize}` };
      const next = token === '' ? query : { ...query, 'continuation-token': token };
      const { text } = await this.#ask({ path: pathOf(bucket), query: next });
      seen.push(...elements(text, 'Key'));
      [token] = elements(text, 'NextContinuationToken');
    }
    const wanted = [...this.#keys].flatMap(([key, [head]]) => (head?.contents === undefined ? [] : [key]));
    this.#compare('the listing', seen, wanted);
  }

  async #listVersions(): Promise<void> {
    const seen: string[] = [];
    for (let marker: Record<string, string> | undefined = {}; marker !== undefined; ) {
      const query = { versions: '', prefix, 'max-keys': `${pageSize}`, ...marker };
      const { text } = await this.#ask({ path: pathOf(bucket), query });
      const ids = elements(text, 'VersionId');
      seen.push(...elements(text, 'Key').map((key, at) => `${key} ${ids[at]}`));
      const [key] = elements(text, 'NextKeyMarker');
      const [id = ''] = elements(text, 'NextVersionIdMarker');
      marker = key === undefined ? undefined : { 'key-marker': key, 'version-id-marker': id };
    }
    const wanted = [...this.#keys].flatMap(([key, state]) => state.map(({ id }) => `${key} ${id}`));
    this.#compare('the listing of versions', seen, wanted);
  }

  async #read(): Promise<void> {
    const all = [...this.#keys];
    const [key, state] = all[Math.floor(Math.random() * all.length)] as (typeof all)[number];
    for (const [at, version] of state.entries()) {
      const query: Record<string, string> = at === 0 ? {} : { versionId: version.id ?? '' };
      const { status, body } = await this.#ask({ path: pathOf(bucket, key), query });
      const isRight =
        version.contents === undefined ? status === 404 : status === 200 && body.equals(bodyOf(version));
      if (!isRight) this.faults.push(`${key} ${version.id}: ${status}`);
    }
  }
}
