/** The linearizability checker: histories that it must refuse or accept, and agreement with trying every order. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Operation, type Value, whyNotLinearizable } from '../support/linearizable.ts';

const never = Number.POSITIVE_INFINITY;
type Times = readonly [called: number, returned: number];

const read = (saw: Value, [called, returned]: Times): Operation => ({
  action: { do: 'read', saw },
  called,
  returned,
});
const write = (value: Value, [called, returned]: Times): Operation => ({
  action: { do: 'write', value },
  called,
  returned,
});
const writeIf = (value: Value, holds: Value, [called, returned]: Times): Operation => ({
  action: { do: 'write', value, if: { holds } },
  called,
  returned,
});
const refused = (operation: Operation): Operation => ({ ...operation, refused: true });
const replaced = (operation: Operation, replacedBy: string): Operation => ({ ...operation, replacedBy });

describe('refuses', () => {
  const histories: Readonly<Record<string, readonly Operation[]>> = {
    'a value that no client wrote': [write('a', [0, 1]), read('b', [2, 3])],
    'a stale read after an acknowledged write': [write('a', [0, 1]), write('b', [2, 3]), read('a', [4, 5])],
    'a read of nothing after an acknowledged write': [write('a', [0, 1]), read(undefined, [2, 3])],
    'a deleted value that comes back': [write('a', [0, 1]), write(undefined, [2, 3]), read('a', [4, 5])],
    'two reads that see one write come and go': [
      write('a', [0, 1]),
      write('b', [2, 10]),
      read('b', [3, 4]),
      read('a', [5, 6]),
    ],
    'two winners who expected the same value': [
      write('a', [0, 1]),
      writeIf('b', 'a', [2, 5]),
      writeIf('c', 'a', [3, 6]),
    ],
    'two winners who expected nothing': [writeIf('a', undefined, [0, 3]), writeIf('b', undefined, [1, 4])],
    'a refusal though the condition held all the while': [
      write('a', [0, 1]),
      refused(writeIf('b', 'a', [2, 3])),
    ],
    'a lost update: a winner whose value is not there': [
      write('a', [0, 1]),
      writeIf('b', 'a', [2, 3]),
      read('a', [4, 5]),
    ],
    'an unanswered write that is seen and then not': [
      write('a', [0, 1]),
      write('b', [2, never]),
      read('b', [3, 4]),
      read('a', [5, 6]),
    ],
    'an unanswered write that is seen before it was sent': [
      write('a', [0, 1]),
      read('b', [2, 3]),
      write('b', [4, never]),
    ],
    'a write that was replaced and is read all the same': [
      replaced(write('a', [0, 5]), 'b'),
      write('b', [1, 9]),
      read('a', [2, 3]),
    ],
    'a write that a conditional one replaced': [
      write('a', [0, 1]),
      replaced(write('b', [2, 5]), 'c'),
      writeIf('c', 'a', [3, 4]),
    ],
    'a write that was replaced by one that had ended before': [
      write('a', [0, 1]),
      replaced(write('b', [2, 3]), 'a'),
    ],
    'a write that was replaced by one that began behind it': [
      replaced(write('a', [0, 1]), 'b'),
      write('b', [2, 3]),
    ],
    'a write that was replaced by one that was refused': [
      replaced(write('a', [0, 5]), 'b'),
      refused(writeIf('b', 'x', [1, 4])),
    ],
    'an unanswered write whose condition never held': [
      write('a', [0, 1]),
      writeIf('b', 'x', [2, never]),
      read('b', [3, 4]),
    ],
  };
  test.each(Object.entries(histories))('%s', (_, history) => {
    expect(whyNotLinearizable(history)).toMatch(/none of these can be next/);
  });
});

describe('lets through', () => {
  const histories: Readonly<Record<string, readonly Operation[]>> = {
    nothing: [],
    'reads on either side of a write that they overlap': [
      write('a', [0, 10]),
      read(undefined, [1, 2]),
      read('a', [3, 4]),
    ],
    'writes that overlap, in either order': [write('a', [0, 5]), write('b', [1, 4]), read('a', [6, 7])],
    'one winner and one who was refused': [
      write('a', [0, 1]),
      writeIf('b', 'a', [2, 5]),
      refused(writeIf('c', 'a', [3, 6])),
      read('b', [7, 8]),
    ],
    'a refusal by a delete that came between': [
      write('a', [0, 1]),
      write(undefined, [2, 6]),
      refused(writeIf('b', 'a', [3, 5])),
      read(undefined, [7, 8]),
    ],
    'writes that one unconditional write replaced, unanswered or not': [
      write('a', [0, 1]),
      replaced(write('b', [2, 6]), 'd'),
      replaced(write('c', [3, 7]), 'd'),
      write('d', [4, never]),
      read('d', [8, 9]),
    ],
    'an unanswered write that never happened': [
      write('a', [0, 1]),
      write('b', [2, never]),
      read('a', [3, 4]),
    ],
    'an unanswered write that happened much later': [
      write('a', [0, 1]),
      write('b', [2, never]),
      read('a', [3, 4]),
      read('b', [5, 6]),
    ],
  };
  test.each(Object.entries(histories))('%s', (_, history) => {
    expect(whyNotLinearizable(history)).toBeUndefined();
  });
});

const canReplace = ({ action, called, replacedBy }: Operation, replaced: readonly Operation[]): boolean =>
  action.do === 'write' &&
  action.if === undefined &&
  replacedBy === undefined &&
  replaced.every((each) => each.replacedBy === action.value && called <= each.returned);

/** Tries every order of every choice of unanswered operations: slow and simple. */
function canBeOrdered(left: readonly Operation[], held: Value, replaced: readonly Operation[] = []): boolean {
  const [first] = replaced;
  if (first === undefined && left.every(({ returned }) => returned === never)) return true;
  return left.some((each) => {
    if (first !== undefined && each.replacedBy !== first.replacedBy && !canReplace(each, replaced))
      return false;
    if (left.some((other) => other !== each && other.returned < each.called)) return false;
    const rest = left.filter((other) => other !== each);
    const { action } = each;
    if (action.do === 'read') return action.saw === held && canBeOrdered(rest, held);
    const holds = action.if === undefined || action.if.holds === held;
    if (holds === (each.refused ?? false)) return false;
    return canBeOrdered(
      rest,
      holds ? action.value : held,
      each.replacedBy === undefined ? [] : [...replaced, each],
    );
  });
}

const value = fc.constantFrom<Value[]>(undefined, 'a', 'b');
const operation: fc.Arbitrary<Operation> = fc
  .record({
    action: fc.oneof(
      fc.record({ do: fc.constant('read' as const), saw: value }),
      fc.record({ do: fc.constant('write' as const), value }),
      fc.record({ do: fc.constant('write' as const), value, if: fc.record({ holds: value }) }),
    ),
    called: fc.nat(12),
    length: fc.oneof({ weight: 5, arbitrary: fc.nat(6) }, { weight: 1, arbitrary: fc.constant(never) }),
    refused: fc.boolean(),
    replacedBy: fc.option(fc.constantFrom('a', 'b'), { nil: undefined, freq: 3 }),
  })
  .map(({ action, called, length, refused: isRefused, replacedBy }) => ({
    action,
    called,
    returned: called + length,
    refused: isRefused && 'if' in action && length < never,
    // Only the answer of an unconditional write can name the write that replaced it.
    ...(replacedBy !== undefined && action.do === 'write' && !('if' in action) && length < never
      ? { replacedBy }
      : {}),
  }));

test('any short history is judged as trying every order judges it', () => {
  let accepted = 0;
  let rejected = 0;
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 6 }), (history) => {
      const isFine = canBeOrdered(history, undefined);
      if (isFine) accepted += 1;
      else rejected += 1;
      expect(whyNotLinearizable(history) === undefined).toBe(isFine);
    }),
    { numRuns: 3000 },
  );
  // Both results must occur often enough for the comparison to be meaningful.
  expect(Math.min(accepted, rejected)).toBeGreaterThan(200);
});

test('a long history of a register that is one is accepted, and refused with one read made stale', () => {
  const random = (() => {
    let state = 7;
    return (sides: number): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return (state >>> 8) % sides;
    };
  })();
  const history: Operation[] = [];
  let held: Value;
  for (let at = 0; at < 400; at += 1) {
    // Each operation takes effect at its own time, inside an interval that overlaps those of its neighbours.
    const times: Times = [at * 10 - random(60), at * 10 + random(60)];
    if (random(3) === 0) history.push(read(held, times));
    else if (random(2) === 0) {
      const guess = random(2) === 0 ? held : 'other';
      const each = writeIf(`v${at}`, guess, times);
      history.push(guess === held ? each : refused(each));
      if (guess === held) held = `v${at}`;
    } else {
      held = random(8) === 0 ? undefined : `v${at}`;
      history.push(write(held, times));
    }
  }
  expect(whyNotLinearizable(history)).toBeUndefined();
  const late: Times = [10_000, 10_001];
  expect(whyNotLinearizable([...history, read('v1', late)])).toBeDefined();
});
