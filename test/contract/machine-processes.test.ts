/** Several processes over one data directory, also when one of them dies or is paused. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { type MachineEngine, machineEngines, openMachineStore } from '../support/machine-stores.ts';
import type { actions, Call } from './machine-process.ts';
import { all, head, headsOf, talliesOf } from './metadata-store/tables.ts';

const script = new URL('./machine-process.ts', import.meta.url).pathname;

/** A child process over the directory, and its answers. */
class Other {
  readonly child: ChildProcess;
  readonly acknowledged: string[] = [];
  readonly ready: Promise<unknown>;
  readonly #waiting = new Map<number, (answer: { result?: unknown; error?: string }) => void>();
  #calls = 0;

  /** @param fileBlocksMax how large a file the child may write, in KiB */
  constructor(name: string, options: { intentTtlMs: number; fileBlocksMax?: number }) {
    const { intentTtlMs, fileBlocksMax = 'unlimited' } = options;
    const command = [process.execPath, script, engine, directory, name, String(intentTtlMs)];
    this.child = spawn('bash', ['-c', `ulimit -f ${fileBlocksMax}; exec "$0" "$@"`, ...command], {
      // lmdb prints the error to stderr.
      stdio: ['ignore', 'inherit', 'ignore', 'ipc'],
    });
    this.ready = new Promise((resolve, reject) => {
      this.child.once('message', resolve);
      this.child.once('exit', reject);
    });
    this.child.on(
      'message',
      (answer: { id?: number; acknowledged?: string; result?: unknown; error?: string }) => {
        if (answer.acknowledged !== undefined) this.acknowledged.push(answer.acknowledged);
        if (answer.id !== undefined) this.#waiting.get(answer.id)?.(answer);
      },
    );
  }

  async ask<Name extends keyof typeof actions>(
    action: Name,
    ...args: Parameters<(typeof actions)[Name]>
  ): Promise<Awaited<ReturnType<(typeof actions)[Name]>>> {
    const call: Call = { id: this.#calls++, action, args };
    const answer = new Promise<{ result?: unknown; error?: string }>((resolve) => {
      this.#waiting.set(call.id, resolve);
    });
    this.child.send(call);
    const { result, error } = await answer;
    if (error !== undefined) throw new Error(error);
    return result as Awaited<ReturnType<(typeof actions)[Name]>>;
  }

  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await gone;
  }
}

let engine: MachineEngine;
let directory = '';
const stores: MetadataStore[] = [];
const others: Other[] = [];

const here = (intentTtlMs = 60_000): MetadataStore => {
  const store = openMachineStore(engine, { directory, durable: true, intentTtlMs });
  stores.push(store);
  return store;
};

const elsewhere = async (name: string, intentTtlMs = 60_000, fileBlocksMax?: number): Promise<Other> => {
  const other = new Other(name, { intentTtlMs, ...(fileBlocksMax === undefined ? {} : { fileBlocksMax }) });
  others.push(other);
  await other.ready;
  return other;
};

const until = async (holds: () => Promise<boolean> | boolean): Promise<void> => {
  for (let tries = 0; tries < 3000; tries++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error('waited in vain');
};

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'machine-store-'));
});

afterEach(async () => {
  await Promise.all(others.splice(0).map((other) => other.kill()));
  await Promise.all(stores.splice(0).map((store) => store.close()));
  await rm(directory, { recursive: true, force: true });
});

describe.each(machineEngines)('several processes over one store: %s', (name) => {
  beforeEach(() => {
    engine = name;
  });

  it('see every write that was acknowledged, wherever it was made', async () => {
    const store = here();
    const other = await elsewhere('other');
    const stale: number[] = [];
    const at = headsOf('b');
    for (let turn = 0; turn < 600; turn++) {
      const row = head('b', 'k', { etag: String(turn) });
      await store.update(at, row, () => row);
      // Read here first, so that this process holds a snapshot of this turn, which a later read must not use again.
      await store.get(at, row);
      if ((await other.ask('get', 'b', 'k'))?.etag !== String(turn)) stale.push(turn);
      await other.ask('put', 'b', `other-${turn}`);
      if ((await store.get(at, { key: `other-${turn}`, slot: '~' })) === undefined) stale.push(turn);
    }
    expect(stale).toEqual([]);
  });

  it('give one winner to each race between them, and count it once', async () => {
    const store = here();
    const racers = await Promise.all(['x', 'y', 'z'].map((name) => elsewhere(name)));
    const count = 400;
    const won = await Promise.all(racers.map((racer) => racer.ask('race', 'b', count)));
    const winners = won.flat();
    expect(winners).toHaveLength(count);
    expect(new Set(winners).size).toBe(count);
    const rows = await all(store.scan(headsOf('b')), 200);
    for (const [index, name] of ['x', 'y', 'z'].entries()) {
      expect(rows.filter((row) => row.etag === name).map((row) => row.key)).toEqual(
        [...(won[index] ?? [])].sort(),
      );
    }
    expect((await store.get(talliesOf('b'), { className: 'c' }))?.row.objects).toBe(count);
  });

  it('lose no update', async () => {
    const store = here();
    const writers = await Promise.all(['x', 'y', 'z'].map((name) => elsewhere(name)));
    await Promise.all(writers.map((writer) => writer.ask('increment', 'b', 'k', 100)));
    expect((await store.get(headsOf('b'), { key: 'k', slot: '~' }))?.row.size).toBe(300);
  });

  it('are bound by a fence that any of them raised', async () => {
    const store = here();
    const other = await elsewhere('other');
    await other.ask('raise', 'b', 2);
    const put = { put: head('b', 'k'), expect: 'absent' as const };
    expect(await store.commit(headsOf('b', 1), [put])).toMatchObject({ because: 'fenced', fence: 2 });
    expect(await store.commit(headsOf('b', 2), [put])).toMatchObject({ applied: true });
  });

  it('lose nothing acknowledged when a writer is killed, and find what it left', async () => {
    const store = here(1000);
    for (const name of ['first', 'second', 'third']) {
      const bucket = `b-${name}`;
      const other = await elsewhere(name, 1000);
      void other.ask('load', bucket);
      await until(() => other.acknowledged.length > 150);
      await other.kill();
      const present = new Set((await all(store.scan(headsOf(bucket)), 500)).map((row) => row.key));
      expect(other.acknowledged.filter((key) => !present.has(key))).toEqual([]);
      // The head and the counter are changed in one commit.
      expect((await store.get(talliesOf(bucket), { className: 'c' }))?.row.objects).toBe(present.size);
      // The survivor can write: lmdb recovers a mutex whose holder died.
      await store.update(headsOf(bucket), { key: 'after', slot: '~' }, () => head(bucket, 'after'));
      await until(async () => (await store.abandoned()).length > 0);
      for (const intent of await store.abandoned()) await store.settle(intent);
      expect(await store.abandoned()).toEqual([]);
    }
  });

  it('refuse the commit of one that was stopped beyond its lease, and let it begin anew', async () => {
    const store = here(2000);
    const other = await elsewhere('other', 2000);
    const opId = await other.ask('begin');
    expect(await store.abandoned()).toEqual([]);
    other.child.kill('SIGSTOP');
    let swept: Awaited<ReturnType<MetadataStore['abandoned']>> = [];
    await until(async () => {
      swept = await store.abandoned();
      return swept.length > 0;
    });
    expect(swept.some(({ prefix }) => opId.startsWith(prefix))).toBe(true);
    other.child.kill('SIGCONT');
    const refused = { applied: false, because: 'abandoned' };
    expect(await other.ask('put', 'b', 'late', opId)).toEqual(refused);
    for (const intent of swept) await store.settle(intent);
    expect(await other.ask('put', 'b', 'later', opId)).toEqual(refused);
    const again = await other.ask('begin');
    expect(await other.ask('put', 'b', 'anew', again)).toMatchObject({ applied: true });
    expect((await all(store.scan(headsOf('b')))).map((row) => row.key)).toEqual(['anew']);
  });

  it('leave a living process its intents, however often the others sweep', async () => {
    const store = here(2000);
    const other = await elsewhere('other', 2000);
    const opId = await other.ask('begin');
    for (let sweep = 0; sweep < 60; sweep++) {
      expect(await store.abandoned()).toEqual([]);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(await other.ask('put', 'b', 'k', opId)).toMatchObject({ applied: true });
  });

  it('say so when the disk is full, keep what was acknowledged, and close', async () => {
    const said = {
      embedded: /could not commit: Error: (File too large|Input)/,
      sqlite: 'the metadata store refused a transaction: Error: disk I/O error',
    }[name];
    const other = await elsewhere('other', 60_000, 4096);
    await expect(other.ask('fill', 'b', 1000)).rejects.toThrow(said);
    const told = other.acknowledged.length;
    expect(told).toBeGreaterThan(100);
    expect((await other.ask('get', 'b', 'fill-0'))?.key).toBe('fill-0');
    // After a failed write the state of lmdb is unknown, so this process accepts no more writes. SQLite goes on.
    const later = other.ask('put', 'b', 'later');
    if (name === 'embedded') await expect(later).rejects.toThrow('until this process is replaced');
    else expect(await later).toMatchObject({ applied: true });
    await other.ask('close');
    const rows = await all(here().scan(headsOf('b')), 200);
    expect(rows).toHaveLength(told + (name === 'embedded' ? 0 : 1));
  });
});
