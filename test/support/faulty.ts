/** A port with some methods replaced: failing, slow, counting. The other methods call the real backend. */
export function faulty<Port extends object>(port: Port, replaced: Partial<Port>): Port {
  return new Proxy(port, {
    get(target, name) {
      const own = Object.hasOwn(replaced, name) ? replaced : target;
      const value: unknown = Reflect.get(own, name, own);
      // Private fields need the object itself as `this`, not the proxy.
      return typeof value === 'function' ? value.bind(own) : value;
    },
  });
}
