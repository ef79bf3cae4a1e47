/** A process over shared stores that dies at its n-th write: before the write takes effect, or before the call returns. */
import type { Context } from '../../src/context.ts';
import type { Backend } from './gateway.ts';

/** A test that dies at every write in turn does so at some on an engine, where each round takes seconds. */
export const stepFor = (backend: Backend): number =>
  backend === 'memory' || backend === 'embedded+file' ? 1 : 11;

export class Died extends Error {}

export interface DyingProcess {
  readonly context: Context;
  /** The number of writes so far. */
  readonly writes: () => number;
  readonly hasDied: () => boolean;
}

const metadataWrites = new Set(['apply', 'commit', 'update', 'clear', 'begin', 'end', 'abort', 'settle']);
const byteWrites = new Set(['write', 'delete', 'deleteAll']);

/** @param at the number of the write, from 0; `Number.POSITIVE_INFINITY` never dies */
export function dyingProcess(inner: Context, at: number, when: 'before' | 'after'): DyingProcess {
  let count = 0;
  let isDead = false;
  const mortal = <Port extends object>(port: Port, names: ReadonlySet<string>): Port =>
    new Proxy(port, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        if (!names.has(String(name))) return value.bind(target);
        return async (...given: unknown[]) => {
          if (isDead) throw new Died();
          const isLast = count++ === at;
          if (isLast) isDead = true;
          if (isLast && when === 'before') throw new Died();
          const result: unknown = await value.apply(target, given);
          if (isLast) throw new Died();
          return result;
        };
      },
    });
  return {
    context: {
      ...inner,
      metadata: mortal(inner.metadata, metadataWrites),
      bytes: mortal(inner.bytes, byteWrites),
    },
    writes: () => count,
    hasDied: () => isDead,
  };
}
