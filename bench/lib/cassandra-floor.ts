/** The time of the driver alone for the statements of the gateway's requests. */
import cassandra from 'cassandra-driver';
import { Rows } from '../../src/backends/metadata/wide-column/rows.ts';
import { buildStatements } from '../../src/backends/metadata/wide-column/statements.ts';
import { objectsAt } from '../../src/metadata/objects/objects.ts';
import { type BucketRow, type ObjectRow, objects } from '../../src/metadata/tables.ts';
import type { AnyTable, At } from '../../src/ports/metadata-store.ts';

type Bucket = Pick<BucketRow, 'id' | 'shards' | 'generation'>;

const { types } = cassandra;
const quorum = { prepare: true, consistency: types.consistencies.localQuorum };

export class CassandraFloor {
  readonly #client: cassandra.Client;
  readonly #rows = new Rows(objects as AnyTable);
  readonly #statements: ReturnType<typeof buildStatements>;

  constructor(hosts: readonly string[], keyspace: string) {
    this.#statements = buildStatements(keyspace, objects as AnyTable);
    this.#client = new cassandra.Client({
      contactPoints: [...hosts],
      localDataCenter: 'dc1',
      encoding: { useBigIntAsLong: true },
      queryOptions: { serialConsistency: types.consistencies.localSerial },
      socketOptions: { readTimeout: 60_000 },
    });
  }

  #place(bucket: Bucket, row: ObjectRow): unknown[] {
    const at = objectsAt(bucket) as At<AnyTable>;
    return [...this.#rows.place(at, this.#rows.shardOf(at, row)), this.#rows.key(at.in, row)];
  }

  /** A conditional insert of one row. */
  async insertIf(bucket: Bucket, row: ObjectRow): Promise<void> {
    const params = [0, ...this.#rows.values(row as never), 'floor', null, ...this.#place(bucket, row), null];
    await this.#client.execute(this.#statements.putIf, params, quorum);
  }

  /** A plain insert of one row. */
  async insert(bucket: Bucket, row: ObjectRow): Promise<void> {
    const stamp = BigInt(Date.now()) * 1000n;
    const values = [...this.#rows.values(row as never), 'floor', null];
    const params = [...this.#place(bucket, row), ...values, stamp, 0];
    await this.#client.execute(this.#statements.put, params, quorum);
  }

  async read(bucket: Bucket, row: ObjectRow): Promise<void> {
    const { rows } = await this.#client.execute(this.#statements.get, this.#place(bucket, row), quorum);
    if (rows.length !== 1) throw new Error(`${row.key} is not there`);
  }

  /** Reads the same range of every shard in parallel, with the limit that a page of a listing uses for each. */
  async page(bucket: Bucket, row: ObjectRow, limit: number): Promise<void> {
    const at = objectsAt(bucket) as At<AnyTable>;
    const low = this.#rows.key(at.in, row);
    const high = Buffer.of(2);
    const shards = Array.from({ length: bucket.shards }, (_, shard) => shard);
    await Promise.all(
      shards.map((shard) =>
        this.#client.execute(
          this.#statements.scan,
          [...this.#rows.place(at, shard), low, high, limit],
          quorum,
        ),
      ),
    );
  }

  close(): Promise<void> {
    return this.#client.shutdown();
  }
}
