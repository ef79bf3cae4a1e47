/** Metadata as one trace sees it. A class, because an object is made for every request. */
import type {
  AnyTable,
  At,
  Change,
  ColumnOf,
  CommitOptions,
  Cursor,
  MetadataStore,
  Op,
  Range,
  RowOf,
  SideChange,
  SortOf,
} from '../../../ports/metadata-store.ts';
import type { CallRecorder } from './call-recorder.ts';

export class TracedMetadata implements MetadataStore {
  readonly behind: MetadataStore;
  readonly #trace: CallRecorder;

  constructor(store: MetadataStore, trace: CallRecorder) {
    this.behind = store;
    this.#trace = trace;
  }

  get isDistant(): boolean {
    return this.behind.isDistant;
  }

  get<T extends AnyTable>(at: At<T>, key: SortOf<T>) {
    return this.#trace.follow(this.#trace.begin('metadata.get', at.table.name), this.behind.get(at, key));
  }

  scan<T extends AnyTable, C extends ColumnOf<T> = ColumnOf<T>>(at: At<T>, range?: Range<T, C>) {
    const cursor = this.behind.scan(at, range);
    const traced: typeof cursor = {
      next: (count) =>
        this.#trace.follow(this.#trace.begin('metadata.scan', at.table.name), cursor.next(count)),
      seek: (key: Parameters<Cursor<T>['seek']>[0], options) => cursor.seek(key, options),
    };
    return traced;
  }

  begin(intent: { readonly cluster: string }) {
    return this.#trace.follow(this.#trace.begin('metadata.begin', intent.cluster), this.behind.begin(intent));
  }

  commit<T extends AnyTable>(at: At<T>, changes: readonly Change<T>[], options?: CommitOptions) {
    const span = this.#trace.begin('metadata.commit', at.table.name);
    return this.#trace.follow(span, this.behind.commit(at, changes, options));
  }

  end(op: Op) {
    return this.behind.end(op);
  }

  abort(opId: string) {
    return this.#trace.follow(this.#trace.begin('metadata.abort', 'ops'), this.behind.abort(opId));
  }

  isOpen(opId: string) {
    return this.#trace.follow(this.#trace.begin('metadata.isOpen', 'ops'), this.behind.isOpen(opId));
  }

  abandoned() {
    return this.behind.abandoned();
  }

  settle(intent: Parameters<MetadataStore['settle']>[0]) {
    return this.behind.settle(intent);
  }

  hasPendingAdditions<T extends AnyTable>(at: At<T>) {
    return this.behind.hasPendingAdditions(at);
  }

  get hasPendingPuts() {
    return this.behind.hasPendingPuts?.bind(this.behind);
  }

  apply(changes: readonly SideChange[]) {
    const table = changes[0]?.at.table.name ?? 'nothing';
    return this.#trace.follow(this.#trace.begin('metadata.apply', table), this.behind.apply(changes));
  }

  update<T extends AnyTable>(at: At<T>, key: SortOf<T>, change: (row: RowOf<T> | undefined) => RowOf<T>) {
    return this.#trace.follow(
      this.#trace.begin('metadata.update', at.table.name),
      this.behind.update(at, key, change),
    );
  }

  clear<T extends AnyTable>(at: At<T>, range: Range<T>) {
    return this.#trace.follow(
      this.#trace.begin('metadata.clear', at.table.name),
      this.behind.clear(at, range),
    );
  }

  fence<T extends AnyTable>(at: At<T>) {
    return this.#trace.follow(this.#trace.begin('metadata.fence', at.table.name), this.behind.fence(at));
  }

  raiseFence<T extends AnyTable>(at: At<T>, generation: number) {
    return this.#trace.follow(
      this.#trace.begin('metadata.raiseFence', at.table.name),
      this.behind.raiseFence(at, generation),
    );
  }

  get split() {
    return this.behind.split?.bind(this.behind);
  }

  get verify() {
    return this.behind.verify?.bind(this.behind);
  }

  get watchCommits() {
    return this.behind.watchCommits?.bind(this.behind);
  }

  now() {
    return this.behind.now();
  }

  health() {
    return this.#trace.follow(this.#trace.begin('metadata.health', 'store'), this.behind.health());
  }

  close() {
    return this.behind.close();
  }
}
