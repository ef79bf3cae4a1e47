/** The JSON form of the schemas of configurations: XML → JSON → XML is the identity. */
import { describe, expect, test } from 'vitest';
import { type Json, readStrictJson } from '../../../src/base/text/strict-json.ts';
import { readXml, requireJson, writeXml, type Xml } from '../../../src/protocol/formats/codec.ts';
import type { JsonFault, JsonSchema, JsonShape } from '../../../src/protocol/formats/json-shape.ts';
import { configurationFamilies, configurationShapes } from '../../../src/protocol/schemas/families.ts';
import { type Dice, openDice } from '../../support/dice.ts';
import { xmlBodies } from '../../support/xml-bodies.ts';

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 32);
const limits = { maxBytes: 1 << 24 };
const encoder = new TextEncoder();

const texts = ['', 'a', 'logs/', ' a b ', 'ä🙂', 'a&b<c>"d', 'line\nline\ttab\r', '__proto__', '10'];

/** A document within the schema, with any subset of its optional parts. */
function documentFor(dice: Dice, schema: JsonSchema): unknown {
  const { type, properties = {}, required = [], items, minItems = 0, maxItems = 3 } = schema;
  if (schema.enum !== undefined) return dice.pick(schema.enum);
  if (type === 'string') return dice.chance(5) ? '2030-01-01T00:00:00.000Z' : dice.pick(texts);
  if (type === 'integer') {
    const { minimum = 0, maximum = 1 } = schema;
    return dice.pick([0, 1, 7, minimum, maximum].filter((each) => each >= minimum && each <= maximum));
  }
  if (type === 'boolean') return dice.chance(2);
  if (type === 'array')
    return dice.several([minItems, Math.min(maxItems, minItems + 2)], () => documentFor(dice, items ?? {}));
  const names = Object.keys(properties).filter((name) => required.includes(name) || dice.chance(2));
  return Object.fromEntries(names.map((name) => [name, documentFor(dice, properties[name] ?? {})]));
}

function readJson(shape: JsonShape<unknown>, text: string) {
  const faults: JsonFault[] = [];
  const json: Json = readStrictJson(text, { refuse: (path, problem) => new Error(`${path} ${problem}`) });
  return { value: shape.read(json, '', (fault) => faults.push(fault)), faults };
}

const configurationBodies = xmlBodies.filter(({ on }) => /^PUT \/bucket\?/.test(on));
const schemas: ReadonlyMap<string, Xml<unknown>> = new Map(
  configurationBodies.map(({ root, schema }) => [root, schema]),
);

describe.each([...schemas])('%s', (root, schema) => {
  test(`random documents become the same XML by way of their JSON (SEED=${seed})`, () => {
    const dice = openDice(seed);
    const shape = requireJson(schema);
    let read = 0;
    for (let round = 0; round < 2_000 && read < 300; round += 1) {
      const { value, faults } = readJson(shape, JSON.stringify(documentFor(dice, shape.schema)));
      // Rules between the parts, such as "one of Days and Date".
      if (faults.length > 0) continue;
      read += 1;
      const xml = writeXml(schema, root, value);
      const fromXml = readXml(schema, root, encoder.encode(xml), limits);
      const again = readJson(shape, JSON.stringify(fromXml));
      expect(again.faults).toEqual([]);
      expect(again.value).toEqual(fromXml);
      expect(JSON.stringify(again.value)).toBe(JSON.stringify(fromXml));
      expect(writeXml(schema, root, again.value)).toBe(xml);
    }
    expect(read).toBeGreaterThan(20);
  });
});

test('every document of the public API becomes the same XML by way of its JSON', () => {
  for (const { root, schema, document } of configurationBodies) {
    const value = readXml(schema, root, encoder.encode(document), limits);
    const { value: again, faults } = readJson(requireJson(schema), JSON.stringify(value));
    expect(faults).toEqual([]);
    expect(writeXml(schema, root, again)).toBe(writeXml(schema, root, value));
  }
});

test('every fault of a document is named, with its place and what would be right', () => {
  const { faults } = readJson(
    configurationShapes.cors,
    JSON.stringify({
      CORSRule: [
        { AllowedMethod: ['GET'], AllowedOrigin: 'x', MaxAgeSeconds: '5', Colour: 'red' },
        { AllowedOrigin: ['*'], MaxAgeSeconds: -1 },
      ],
      Version: 1,
    }),
  );
  expect(faults.map(({ path, wrong, right }) => `${path} ${wrong}: ${right}`).sort()).toEqual([
    'CORSRule[0].AllowedOrigin is "x": must be a list of 1 or more',
    'CORSRule[0].Colour is not known here: must be one of ID, AllowedHeader, AllowedMethod, AllowedOrigin, ExposeHeader, MaxAgeSeconds',
    'CORSRule[0].MaxAgeSeconds is "5": must be a whole number',
    'CORSRule[1].AllowedMethod has 0 members: must be a list of 1 or more',
    'CORSRule[1].MaxAgeSeconds is -1: must be from 0 to 2147483647',
    'Version is not known here: must be one of CORSRule',
  ]);
});

test('every family has a JSON Schema of an object', () => {
  for (const family of configurationFamilies) expect(configurationShapes[family].schema.type).toBe('object');
});
