/** The search for a pattern of a policy with a `?`, beside what the map of its characters alone would cost. */
import { compileGlob, type Glob, matchGlob } from '../../src/auth/policy/patterns.ts';
import { type Plain, parseTemplate } from '../../src/auth/policy/variables.ts';
import { microsOfSync, type Piece } from '../lib/micro.ts';

const compile = (pattern: string): Glob =>
  compileGlob(parseTemplate(pattern, { at: '', variables: false, wildcards: true }) as readonly Plain[]);

/** No run of the patterns is found in these texts. */
const key = 'logs/2026/11/28/host-0001/access-log.gzx';
const header = 'x-abc/'.repeat(2_334);

export function patterns(): Piece[] {
  const [one, other] = ['*a?d*', '*b?d*'].map(compile) as [Glob, Glob];
  const map = new Map([...'ad'].map((letter, index) => [letter.charCodeAt(0), index + 1]));
  const lookUp = (text: string): number => {
    let sum = 0;
    for (let index = 0; index < text.length; index++) sum += map.get(text.charCodeAt(index)) ?? 0;
    return sum;
  };
  const inTurn = (): void => {
    matchGlob(one, key);
    matchGlob(other, key);
  };
  return [
    { name: `pattern, key of ${key.length} characters`, micros: microsOfSync(() => matchGlob(one, key)) },
    { name: 'the same, each time after another pattern', micros: microsOfSync(inTurn) / 2 },
    {
      name: `pattern, header of ${header.length} characters`,
      micros: microsOfSync(() => matchGlob(one, header)),
    },
    { name: 'look-ups of its characters in a map alone', micros: microsOfSync(() => lookUp(header)) },
  ];
}
