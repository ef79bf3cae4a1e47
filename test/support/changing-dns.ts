/**
 * A DNS whose answers a test chooses, for names below `.test`: the resolver of the system cannot be told to lie. It stands in the place of
 * `dns.lookup`, from where every socket and every client library asks.
 */
import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';

type Done = (error: Error | null, found: unknown, family?: number) => void;

export interface ChangingDns extends Disposable {
  /** Names that were asked for, in order. */
  readonly asked: readonly string[];
}

/** @param answer the addresses of a name at its n-th question, from 0 */
export function changingDns(answer: (name: string, n: number) => readonly string[]): ChangingDns {
  const { lookup } = dns;
  const ofPromises = dns.promises.lookup;
  const asked: string[] = [];
  const resolve = (name: string) => {
    const n = asked.filter((each) => each === name).length;
    asked.push(name);
    return answer(name, n).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  };
  const isOurs = (name: string): boolean => name.endsWith('.test');
  dns.lookup = ((name: string, options: { readonly all?: boolean } | Done, done?: Done) => {
    // The cast: the overloads of `lookup` have no common type.
    if (!isOurs(name)) return (lookup as unknown as (...all: unknown[]) => void)(name, options, done);
    const found = resolve(name);
    const callback = (typeof options === 'function' ? options : done) as Done;
    const isAll = typeof options === 'object' && options.all === true;
    setImmediate(() => (isAll ? callback(null, found) : callback(null, found[0]?.address, found[0]?.family)));
  }) as typeof dns.lookup;
  dns.promises.lookup = (async (name: string, options?: { readonly all?: boolean }) => {
    if (!isOurs(name)) return ofPromises(name, options ?? {});
    const found = resolve(name);
    return options?.all === true ? found : found[0];
  }) as typeof dns.promises.lookup;
  syncBuiltinESMExports();
  return {
    asked,
    [Symbol.dispose]() {
      dns.lookup = lookup;
      dns.promises.lookup = ofPromises;
      syncBuiltinESMExports();
    },
  };
}
