/**
 * Rounds of three gateways that write under quotas over one store, with commits that are delayed, fail or have an
 * unknown outcome, clocks of different speeds, quotas that change, and gateways that die. After every commit the
 * counters are compared with the quota.
 */

import { createGateway } from '../../src/admin-gateway.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { readUsage } from '../../src/metadata/buckets/usage.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Credential } from '../../src/ports/credentials.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { type Dice, openDice } from '../support/dice.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { type Client, openClient } from '../support/gateway-client.ts';

interface Quota {
  readonly bytes: number;
  readonly objects: number;
}

const buckets = ['one', 'two'];
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const never = new Promise<never>(() => {});

interface Gateway {
  readonly client: Client;
  readonly admin: Client;
  /** Resolves when the gateway has died: it answers no more. */
  readonly died: Promise<void>;
}

class Round {
  readonly wrong: string[] = [];
  readonly #dice: Dice;
  readonly #world: GatewayWorld;
  readonly #isAccount: boolean;
  readonly #late: Promise<unknown>[] = [];
  #ids: readonly string[] = [];
  /** What may be stored; the larger one while a quota changes. */
  #quota: Quota = { bytes: Number.POSITIVE_INFINITY, objects: Number.POSITIVE_INFINITY };
  #used: Quota = { bytes: 0, objects: 0 };
  /** The store's clock. */
  #now = Date.now();
  #isCalm = true;
  readonly #admin: Client;

  constructor(dice: Dice, world: GatewayWorld) {
    this.#dice = dice;
    this.#world = world;
    this.#isAccount = dice.chance(2);
    this.#admin = this.#gateway().admin;
  }

  async run(): Promise<readonly string[]> {
    const { client } = this.#world;
    for (const bucket of buckets) {
      await client.put(`/${bucket}`);
      if (this.#dice.chance(2)) await setVersioning(client, bucket, 'Enabled');
      if (this.#dice.chance(2)) await client.put(`/${bucket}/before`, { body: 'x'.repeat(7) });
    }
    const found = await Promise.all(buckets.map((name) => openBucket(this.#world.context, name)));
    this.#ids = (this.#isAccount ? found : found.slice(0, 1)).map(({ id }) => id);
    await this.#limit(this.#draw());
    this.#isCalm = false;
    const gateways = Array.from({ length: 3 }, () => this.#gateway());
    const writers = [...gateways, ...gateways].map((gateway) => this.#write(gateway));
    await Promise.all([...writers, this.#change()]);
    await this.#end();
    return this.wrong;
  }

  #draw(): Quota {
    const objects = this.#isAccount ? Number.POSITIVE_INFINITY : 3 + this.#dice.roll(8);
    return { bytes: 20 + this.#dice.roll(80), objects };
  }

  async #usage(): Promise<Quota> {
    let [bytes, objects] = [0, 0];
    for (const id of this.#ids)
      for (const counts of (await readUsage(this.#world.context.metadata, id)).values()) {
        bytes += counts.bytes;
        objects += counts.objects;
      }
    return { bytes, objects };
  }

  /** Called after each commit: what was added must have had room. */
  async #check(): Promise<void> {
    const used = await this.#usage();
    for (const kind of ['bytes', 'objects'] as const)
      if (used[kind] > this.#used[kind] && used[kind] > this.#quota[kind])
        this.wrong.push(`${used[kind]} ${kind} are stored, the quota is ${this.#quota[kind]}`);
    this.#used = used;
  }

  async #limit(quota: Quota): Promise<void> {
    const former = this.#quota;
    this.#quota = {
      bytes: Math.max(former.bytes, quota.bytes),
      objects: Math.max(former.objects, quota.objects),
    };
    const path = this.#isAccount ? `iam/users/${alice.owner}` : 'buckets/one';
    const body = this.#isAccount
      ? { maxBuckets: 0, totalMaxBytes: quota.bytes }
      : { maxBytes: quota.bytes, maxObjects: quota.objects, maxBytesPerObject: 0 };
    const put = () => this.#admin.put(`/admin/v1/${path}/quota`, { body: JSON.stringify(body) });
    let answer = await put();
    for (let tries = 0; answer.status === 503 && tries < 20; tries += 1) answer = await put();
    if (answer.status !== 204) throw new Error(answer.text);
    // Together: what was stored under the former quota may stay.
    const used = await this.#usage();
    this.#quota = quota;
    this.#used = used;
  }

  async #change(): Promise<void> {
    for (let change = 0; change < 2; change += 1) {
      for (let turns = this.#dice.roll(400); turns > 0; turns -= 1) await turn();
      if (this.#dice.chance(2)) await this.#limit(this.#draw());
    }
  }

  async #write({ client, died }: Gateway): Promise<void> {
    for (let step = 0; step < 10; step += 1) {
      const path = `/${this.#dice.pick(buckets)}/k${this.#dice.roll(6)}`;
      const body = 'x'.repeat(this.#dice.roll(20));
      const asked = this.#dice.chance(5) ? client.delete(path) : client.put(path, { body });
      await Promise.race([asked, died]);
    }
  }

  /** A gateway with its own caches, clock and faults. */
  #gateway(): Gateway {
    const { context } = this.#world;
    const { metadata } = context;
    let elapsed = 0;
    let isDead = false;
    let die = (): void => {};
    const died = new Promise<void>((resolve) => {
      die = resolve;
    });
    const speed = 0.2 + this.#dice.roll(20) / 10;
    const diesAfter =
      !this.#isCalm && this.#dice.chance(2) ? 2 + this.#dice.roll(60) : Number.POSITIVE_INFINITY;
    let calls = 0;
    const alive = async (): Promise<void> => {
      calls += 1;
      if (calls > diesAfter && !this.#isCalm) isDead = true;
      if (isDead) {
        die();
        await never;
      }
      for (let turns = this.#dice.roll(4); turns > 0; turns -= 1) await turn();
    };
    const commit: Context['metadata']['commit'] = async (at, changes, options) => {
      await alive();
      const apply = async () => {
        const outcome = await metadata.commit(at, changes, options);
        if (outcome.applied && at.table.name === 'objects') await this.#check();
        return outcome;
      };
      // Most commits of objects are in a bucket that is nearly full.
      const fate = this.#isCalm ? 99 : this.#dice.roll(at.table.name === 'objects' ? 12 : 40);
      if (fate === 0) throw new StoreUnavailable('not sent');
      if (fate === 1) {
        await apply();
        throw new StoreUnavailable('applied, no answer');
      }
      if (fate === 2) {
        const wait = this.#dice.roll(200);
        this.#late.push(
          (async () => {
            for (let turns = wait; turns > 0; turns -= 1) await turn();
            await apply();
          })(),
        );
        throw new StoreUnavailable('on its way');
      }
      return await apply();
    };
    const clock: Clock = {
      now: context.clock.now,
      elapsed: () => elapsed,
      sleep: async (ms) => {
        await turn();
        elapsed += ms * speed;
        this.#now += Math.ceil(ms);
        await alive();
      },
    };
    const own: Context = {
      ...context,
      caches: new Caches(),
      clock,
      metadata: faulty(metadata, { commit, now: async () => this.#now }),
    };
    const gateway = createGateway(own);
    const as = (credential: Credential): Client => openClient(gateway, context.clock, { credential });
    return { client: as(alice), admin: as(operator), died };
  }

  /** Everything that was reserved becomes free: one gateway fills the rest, byte by byte, and gets not one more. */
  async #end(): Promise<void> {
    await Promise.all(this.#late);
    this.#isCalm = true;
    this.#now += 60_000;
    const { client } = this.#gateway();
    const used = await this.#usage();
    const rest = { bytes: this.#quota.bytes - used.bytes, objects: this.#quota.objects - used.objects };
    if (rest.bytes > 0 && rest.objects > 0) {
      const { status } = await client.put('/one/rest', { body: 'x'.repeat(rest.bytes) });
      if (status !== 200) this.wrong.push(`${rest.bytes} bytes are free, and are refused with ${status}`);
    }
    const { status } = await client.put('/one/more', { body: 'x' });
    if (status !== 403) this.wrong.push(`a byte above the quota is answered ${status}`);
  }
}

/** @returns what was wrong, by seed */
export async function quotaRounds(rounds: number, seed: number): Promise<readonly string[]> {
  const wrong: string[] = [];
  for (let n = 0; n < rounds; n += 1) {
    await using world = await openGateway();
    const round = new Round(openDice(seed + n), world);
    const found = await round.run();
    wrong.push(...found.map((line) => `seed ${seed + n}: ${line}`));
  }
  return wrong;
}
