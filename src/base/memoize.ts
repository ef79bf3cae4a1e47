/** Functions that cache their results. */

/** Caches the last result: times are formatted and parsed many times in one millisecond. */
export function memoizeLast<In, Out>(compute: (input: In) => Out): (input: In) => Out {
  let last: { readonly input: In; readonly output: Out } | undefined;
  return (input) => {
    if (last?.input !== input) last = { input, output: compute(input) };
    return last.output;
  };
}

/** Caches the result for each object, for as long as the object lives. */
export function memoizeEach<In extends object, Out extends object>(
  compute: (input: In) => Out,
): (input: In) => Out {
  const said = new WeakMap<In, Out>();
  return (input) => {
    let output = said.get(input);
    if (output === undefined) {
      output = compute(input);
      said.set(input, output);
    }
    return output;
  };
}
