/** Functions that remember what they said. */

/** What it said last: many ask in one millisecond, and times are slow to write and to read. */
export function memoizeLast<In, Out>(compute: (input: In) => Out): (input: In) => Out {
  let last: { readonly input: In; readonly output: Out } | undefined;
  return (input) => {
    if (last?.input !== input) last = { input, output: compute(input) };
    return last.output;
  };
}

/** What it said of each object, for as long as that lives. */
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
