/** Clients of a versioned bucket that is being resharded; each key belongs to one client, so that every answer can be checked. */
import { expect } from 'vitest';
import type { GatewayWorld } from './gateway.ts';
import { complete, createUpload, putPart } from './gateway-bodies.ts';
import { random } from './split-race.ts';

interface Version {
  readonly id: string;
  /** Absent: a delete marker. */
  readonly body?: string;
}

const pathOf = (key: string): string => `/bucket/${encodeURIComponent(key)}`;

export class ReshardLoad {
  readonly #world: GatewayWorld;
  readonly #keys: readonly string[];
  readonly #model = new Map<string, readonly Version[]>();
  /** Increases at the begin and the end of every change, so it is odd during a change. */
  readonly #changes = new Map<string, number>();
  readonly #chance: () => number;
  #isOver = false;
  #bodies = 0;
  requests = 0;

  constructor(world: GatewayWorld, { keys, seed }: { readonly keys: number; readonly seed: number }) {
    this.#world = world;
    this.#keys = Array.from({ length: keys }, (_, each) => `${each % 3 === 0 ? 'é' : 'key'} ${each}`);
    this.#chance = random(seed);
  }

  async fill(): Promise<void> {
    await Promise.all(
      [0, 1, 2, 3].map(async (client) => {
        for (const key of this.#of(client, 4)) for (let each = 0; each < 2; each += 1) await this.#put(key);
      }),
    );
  }

  /** Runs the clients until `work` is done. */
  async during(work: Promise<unknown>, clients = 4): Promise<void> {
    this.#isOver = false;
    const stop = (): void => {
      this.#isOver = true;
    };
    const all = [
      ...Array.from({ length: clients }, (_, client) => this.#client(this.#of(client, clients))),
      this.#lister(),
    ].map((each) => each.finally(stop));
    await Promise.all([work.finally(stop), ...all]);
  }

  #of(client: number, clients: number): readonly string[] {
    return this.#keys.filter((_, each) => each % clients === client);
  }

  async #client(keys: readonly string[]): Promise<void> {
    while (!this.#isOver) {
      const key = keys[Math.floor(this.#chance() * keys.length)] as string;
      const what = this.#chance();
      if (what < 0.4) await this.#put(key);
      else if (what < 0.5) await this.#upload(key);
      else if (what < 0.65) await this.#delete(key);
      else if (what < 0.8) await this.#deleteVersion(key);
      await this.#read(key);
      this.requests += 1;
    }
  }

  async #change(key: string, change: (versions: readonly Version[]) => Promise<readonly Version[]>) {
    const begun = (this.#changes.get(key) ?? 0) + 1;
    this.#changes.set(key, begun);
    this.#model.set(key, await change(this.#model.get(key) ?? []));
    this.#changes.set(key, begun + 1);
  }

  #put(key: string): Promise<void> {
    const body = `body ${++this.#bodies}`;
    return this.#change(key, async (versions) => {
      const put = await this.#world.client.put(pathOf(key), { body });
      expect(put.status, put.text).toBe(200);
      return [{ id: put.header('*-version-id') ?? '', body }, ...versions];
    });
  }

  #upload(key: string): Promise<void> {
    const body = `part ${++this.#bodies}`;
    return this.#change(key, async (versions) => {
      const { client } = this.#world;
      const uploadId = await createUpload(client, pathOf(key));
      const part = await putPart(client, pathOf(key), { uploadId, number: 1, body });
      const done = await complete(client, pathOf(key), { uploadId, parts: [part] });
      expect(done.status, done.text).toBe(200);
      return [{ id: done.header('*-version-id') ?? '', body }, ...versions];
    });
  }

  #delete(key: string): Promise<void> {
    return this.#change(key, async (versions) => {
      const gone = await this.#world.client.delete(pathOf(key));
      expect(gone.status, gone.text).toBe(204);
      return [{ id: gone.header('*-version-id') ?? '' }, ...versions];
    });
  }

  #deleteVersion(key: string): Promise<void> {
    return this.#change(key, async (versions) => {
      const doomed = versions[Math.floor(this.#chance() * versions.length)];
      if (doomed === undefined) return versions;
      const gone = await this.#world.client.delete(`${pathOf(key)}?versionId=${doomed.id}`);
      expect(gone.status, gone.text).toBe(204);
      return versions.filter((version) => version !== doomed);
    });
  }

  /** Expects that the latest version and an older one equal what the key's only writer wrote. */
  async #read(key: string): Promise<void> {
    const versions = this.#model.get(key) ?? [];
    const answer = await this.#world.client.get(pathOf(key));
    expect([answer.status === 200, answer.status === 200 ? answer.text : undefined], key).toEqual([
      versions[0]?.body !== undefined,
      versions[0]?.body,
    ]);
    const old = versions[Math.floor(this.#chance() * versions.length)];
    if (old?.body === undefined) return;
    const read = await this.#world.client.get(`${pathOf(key)}?versionId=${old.id}`);
    expect([read.status, read.text], `${key} ${old.id}`).toEqual([200, old.body]);
  }

  async #lister(): Promise<void> {
    while (!this.#isOver) {
      await this.list();
      await this.versions();
    }
  }

  /** Expects that keys without a concurrent change are as in the model, and that no key is listed twice. */
  async list(pageSize = 7): Promise<void> {
    const before = new Map(this.#changes);
    const wanted = new Map([...this.#model].map(([key, [latest]]) => [key, latest?.body !== undefined]));
    const seen: string[] = [];
    for (let token = ''; ; ) {
      const next = token === '' ? '' : `&continuation-token=${encodeURIComponent(token)}`;
      const page = await this.#world.client.get(`/bucket?list-type=2&max-keys=${pageSize}${next}`);
      expect(page.status, page.text).toBe(200);
      seen.push(...page.all('Key'));
      if (page.one('IsTruncated') !== 'true') break;
      token = page.one('NextContinuationToken') ?? '';
    }
    expect(seen.filter((key, each) => seen.indexOf(key) !== each)).toEqual([]);
    for (const [key, isThere] of wanted)
      if (this.#isStill(key, before)) expect([key, seen.includes(key)]).toEqual([key, isThere]);
  }

  /** Expects that no version is listed twice, and that all versions of unchanged keys are listed. */
  async versions(): Promise<void> {
    const before = new Map(this.#changes);
    const wanted = new Map(this.#model);
    const shown = await this.#world.client.get('/bucket?versions');
    expect(shown.status, shown.text).toBe(200);
    const [keys, ids] = [shown.all('Key'), shown.all('VersionId')];
    expect(new Set(ids).size, 'versions that are listed twice').toBe(ids.length);
    for (const [key, versions] of wanted) {
      if (!this.#isStill(key, before)) continue;
      const found = ids.filter((_, each) => keys[each] === key);
      expect(found, key).toEqual(versions.map(({ id }) => id));
    }
  }

  #isStill(key: string, before: ReadonlyMap<string, number>): boolean {
    const was = before.get(key) ?? 0;
    return was % 2 === 0 && this.#changes.get(key) === was;
  }

  /** After the clients have stopped, expects every version with its exact bytes. */
  async check(): Promise<void> {
    await this.list(1000);
    await this.versions();
    for (const [key, versions] of this.#model) {
      await this.#read(key);
      for (const { id, body } of versions) {
        if (body === undefined) continue;
        const read = await this.#world.client.get(`${pathOf(key)}?versionId=${id}`);
        expect([read.status, read.text], `${key} ${id}`).toEqual([200, body]);
      }
    }
  }
}
