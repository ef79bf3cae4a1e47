/**
 * Authorization through the front door against a slow model of the public API's rules: policies of callers, buckets and access points,
 * ACLs, ownership, public access blocks, session policies and permissions boundaries in random combinations.
 */
import { expect, test } from 'vitest';
import { type Key, mayDo, type Question } from '../support/authorization-model.ts';
import { AuthorizationWorld, carol, settings } from '../support/authorization-world.ts';
import { openDice } from '../support/dice.ts';
import { openGateway } from '../support/gateway.ts';

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const rounds = Number(process.env['ROUNDS'] ?? 60);
const objects: readonly Key[] = ['mine', 'theirs'];

const atBucket: readonly Question[] = [
  ...objects.flatMap((key): Question[] => [
    { action: 's3:GetObject', key },
    { action: 's3:GetObjectAcl', key },
  ]),
  { action: 's3:PutObject', key: 'scratch' },
  { action: 's3:DeleteObject', key: 'scratch' },
  ...(['s3:ListBucket', 's3:GetBucketAcl', 's3:GetBucketPolicy', 's3:GetBucketTagging'] as const).map(
    (action): Question => ({ action, key: '' }),
  ),
];
const questions: readonly Question[] = [
  ...atBucket,
  ...(['open', 'shut'] as const).flatMap((point) =>
    atBucket
      .filter(({ action }) => action !== 's3:GetBucketTagging')
      .map((question): Question => ({ ...question, point })),
  ),
];

test(`every decision is that of the model, seed ${seed}`, async () => {
  await using gateway = await openGateway({ settings, people: [carol] });
  const dice = openDice(seed);
  const world = new AuthorizationWorld(gateway, dice);
  await world.open();
  const counts = { let: 0, refused: 0 };
  for (let round = 0; round < rounds; round++) {
    const configured = await world.configure();
    for (const { caller, client } of await world.askers()) {
      // Ask half of the questions, so that the same time covers twice as many configurations.
      for (const question of questions.filter(() => dice.chance(2))) {
        const isLet = await world.isLet(client, question);
        counts[isLet ? 'let' : 'refused'] += 1;
        const difference = { seed, round, question, isLet, caller, configured };
        expect(isLet, JSON.stringify(difference, undefined, 1)).toBe(mayDo(configured, caller, question));
      }
    }
  }
  // The comparison is meaningful only if both answers are common.
  expect(Math.min(counts.let, counts.refused)).toBeGreaterThan(rounds * 15);
});
