/**
 * docs/recovery.md, followed step by step: each section's damage is applied to a real directory, the symptom appears, the commands run as
 * printed, and the promised state is reached.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { canMount } from '../support/small-disk.ts';
import { patternOf, recoverySections } from './recovery-page.ts';
import { makeBase, removeBase, scenarios } from './recovery-scenarios.ts';
import { Site } from './recovery-site.ts';

const sections = recoverySections();

test('every section of docs/recovery.md with commands is followed', () => {
  expect(sections.map(({ title }) => title).sort()).toEqual(Object.keys(scenarios).sort());
  for (const { title, symptom, result } of sections)
    expect([title, symptom.length > 0, result.length > 0]).toEqual([title, true, true]);
});

describe('the steps of docs/recovery.md', () => {
  beforeAll(makeBase);
  afterAll(removeBase);
  let site: Site;
  beforeEach(() => {
    site = new Site();
  });
  afterEach(() => site[Symbol.asyncDispose]());

  for (const section of sections) {
    const scenario = scenarios[section.title];
    if (scenario === undefined) continue;
    test.skipIf(scenario.needsMount === true && !canMount())(section.title, async () => {
      await scenario.damage(site);
      for (const line of section.symptom) expect(site.seen).toMatch(patternOf(line));
      await site.follow(section);
      await scenario.check(site);
    });
  }
});
