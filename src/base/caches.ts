/**
 * The caches of one gateway, in its `Context`: one of each kind, created on first use. A kind is a class whose constructor takes no
 * arguments. So no module holds a cache, and two gateways in one process share none.
 */
export class Caches {
  readonly #made = new Map<new () => object, object>();

  of<T extends object>(kind: new () => T): T {
    let cache = this.#made.get(kind);
    if (cache === undefined) {
      cache = new kind();
      this.#made.set(kind, cache);
    }
    // The cast is safe: the map holds an instance of `kind` under `kind`.
    return cache as T;
  }
}
