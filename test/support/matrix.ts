/**
 * Samples of an attack matrix: random cells of principal × credential × place of a name × operation, each compared with
 * a slow model that knows the public rules only. A failure prints the seed, which `MATRIX_SEED` repeats.
 */
import { randomInt } from 'node:crypto';
import { type Dice, openDice } from './dice.ts';
import type { Answer } from './gateway-client.ts';

export interface Cell {
  readonly name: string;
  /** What the model says. */
  readonly isAllowed: boolean;
  send(): Promise<Answer>;
  /** Happens after the answer, which agreed with the model; throws where the state does not. */
  check?(answer: Answer): Promise<void>;
}

const isDone = ({ status, text }: Answer): boolean => status < 300 && !text.includes('<Error>');
const isRefused = ({ status, text }: Answer): boolean =>
  (status >= 400 && status < 500) || (status === 200 && text.includes('<Error>'));

/** A cell is drawn again where the model says what the coin does not, so that about half of the cells are allowed. */
const drawsMax = 40;

/**
 * Sends `count` cells, the kinds in turn.
 * @throws with the seed, each cell whose answer is not the model's, and each kind of which no cell was allowed or none refused
 */
export async function sampleMatrix(
  count: number,
  kinds: readonly string[],
  draw: (dice: Dice, kind: string) => Cell,
): Promise<void> {
  const seed = Number(process.env['MATRIX_SEED'] ?? randomInt(2 ** 31));
  const dice = openDice(seed);
  const wrong: string[] = [];
  const seen = new Map(kinds.map((kind) => [kind, { allowed: 0, refused: 0 }]));
  for (let each = 0; each < count; each += 1) {
    const kind = kinds[each % kinds.length] as string;
    const isAllowed = dice.chance(2);
    let cell = draw(dice, kind);
    for (let more = 1; more < drawsMax && cell.isAllowed !== isAllowed; more += 1) cell = draw(dice, kind);
    const answer = await cell.send();
    const counts = seen.get(kind) as { allowed: number; refused: number };
    counts[cell.isAllowed ? 'allowed' : 'refused'] += 1;
    if (cell.isAllowed ? isDone(answer) : isRefused(answer)) await cell.check?.(answer);
    else
      wrong.push(
        `${cell.name}: ${cell.isAllowed ? 'should be done' : 'should be refused'}, ${answer.status} ${answer.code} ${answer.text.slice(0, 300)}`,
      );
  }
  const oneSided = [...seen].filter(([, { allowed, refused }]) => allowed === 0 || refused === 0);
  if (wrong.length > 0 || oneSided.length > 0)
    throw new Error(
      `MATRIX_SEED=${seed}: ${wrong.length} of ${count} cells are wrong\n${wrong.slice(0, 12).join('\n')}\n${oneSided.map(([kind, counts]) => `${kind}: ${JSON.stringify(counts)}`).join('\n')}`,
    );
  console.log(`MATRIX_SEED=${seed}`, JSON.stringify(Object.fromEntries(seen)));
}
