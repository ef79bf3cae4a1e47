/**
 * `node bench/usage-error.ts`: how far the bill of a day is from the exact integral of what a bucket held, over random days: the largest
 * error, as a share of one sample interval of each object, and the error of the sum of all bills.
 */
import { parseArgs } from 'node:util';
import { addBucketSample, type BucketSamples, type Counts, closeDay } from '../src/domain/usage/samples.ts';
import { openDice } from '../test/support/dice.ts';
import { dayMs, drawHistory, exactUsage, type History } from '../test/support/usage-histories.ts';

const { values } = parseArgs({ options: { days: { type: 'string', default: '20000' } } });
const days = Number(values.days);

/** What the bucket holds at a time of the day, by class; classes keep their counters at 0. */
function countAt({ states }: History, now: number): ReadonlyMap<string, Counts> {
  const counted = new Map<string, Counts>();
  for (const { storageClass, bytes, at, until } of states) {
    if (at > now) continue;
    const { bytes: sum = 0, objects = 0 } = counted.get(storageClass) ?? {};
    counted.set(
      storageClass,
      now < until ? { bytes: sum + bytes, objects: objects + 1 } : { bytes: sum, objects },
    );
  }
  return counted;
}

function bill(history: History, passes: number): ReadonlyMap<string, number> {
  let samples: Required<Pick<BucketSamples, 'first' | 'count' | 'classes'>> | undefined;
  let seen = 0;
  for (let pass = 1; pass <= passes; pass += 1) {
    const now = ((pass - 1) * dayMs) / passes;
    if (now < history.created || now >= history.deleted) continue;
    samples = addBucketSample(samples, { pass, counted: countAt(history, now) });
    seen = pass;
  }
  const absence = { before: (samples?.first ?? 1) - 1, after: passes - seen };
  const classes = Object.entries(samples?.classes ?? {});
  return new Map(classes.map(([name, each]) => [name, Number(closeDay(each, absence).byteSeconds)]));
}

console.log(
  `| bucket exists | samples a day | largest error ÷ one interval of each object | mean error | error of the sum |`,
);
console.log('|---|---|---|---|---|');
for (const kind of ['all-day', 'created', 'deleted'] as const)
  for (const passes of [24, 96, 1_440]) {
    let [largest, sum, count, billedSum, exactSum] = [0, 0, 0, 0, 0];
    for (let seed = 1; seed <= days; seed += 1) {
      const history = drawHistory(openDice(seed), kind);
      const bills = bill(history, passes);
      for (const [storageClass, { byteSeconds, tolerance }] of exactUsage(history, dayMs / passes)) {
        const billed = bills.get(storageClass) ?? 0;
        const error = Math.abs(billed - byteSeconds) / tolerance;
        largest = Math.max(largest, error);
        sum += error;
        count += 1;
        billedSum += billed;
        exactSum += byteSeconds;
      }
    }
    const ofSum = ((billedSum / exactSum - 1) * 100).toFixed(3);
    console.log(`| ${kind} | ${passes} | ${largest.toFixed(3)} | ${(sum / count).toFixed(3)} | ${ofSum} % |`);
  }
