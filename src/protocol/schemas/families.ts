/** The families of bucket configurations: the XML form of each, and its JSON form from the same schema. */
import { type Infer, requireJson, type Xml } from '../formats/codec.ts';
import type { JsonShape } from '../formats/json-shape.ts';
import * as access from './access.ts';
import * as bucket from './bucket.ts';
import type { ConfigurationSchema } from './common.ts';
import * as inventory from './inventory.ts';
import * as lifecycle from './lifecycle.ts';
import * as notification from './notification.ts';
import * as object from './object.ts';
import * as replication from './replication.ts';

const schemas = {
  ...access,
  ...bucket,
  ...inventory,
  ...lifecycle,
  ...notification,
  ...object,
  ...replication,
};

type Declared = Extract<(typeof schemas)[keyof typeof schemas], { readonly family: string }>;
/** All families but that of policies, which are JSON in the storage protocol too. */
export type XmlFamily = Declared['family'];
/** What the XML of a family is read into, and what its JSON is. */
export type ConfigurationOf<F extends XmlFamily> = Infer<Extract<Declared, { readonly family: F }>>;

const isConfiguration = (value: unknown): value is ConfigurationSchema<XmlFamily, unknown> =>
  typeof value === 'object' && value !== null && 'family' in value;
const declared = Object.values<unknown>(schemas).filter(isConfiguration);

/** The root element of each in the storage protocol, and its schema. */
export const configurationDocuments = Object.fromEntries(
  declared.map((each) => [each.family, { root: each.root, schema: each }]),
  // The cast: the families are those of `declared`.
) as unknown as Readonly<Record<XmlFamily, { readonly root: string; readonly schema: Xml<unknown> }>>;

export type ConfigurationFamily = XmlFamily | 'policy';
type Shapes = { readonly [F in XmlFamily]: JsonShape<ConfigurationOf<F>> } & {
  readonly policy: JsonShape<string>;
};
export const configurationShapes = Object.fromEntries([
  ...declared.map((each) => [each.family, requireJson(each.options.json ?? each)] as const),
  ['policy', access.bucketPolicyDocument] as const,
  // The cast: as above.
]) as unknown as Shapes;

export const configurationFamilies = Object.keys(
  configurationShapes,
).sort() as readonly ConfigurationFamily[];

export const familiesWithIds: ReadonlySet<ConfigurationFamily> = new Set(
  declared.filter(({ options }) => options.hasIds).map(({ family }) => family),
);
