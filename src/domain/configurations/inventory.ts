/** The inventory configurations of a bucket: one document holds all of them, each with an id. */
import type { ConfigurationOf, XmlFamily } from '../../protocol/schemas/families.ts';
import { family } from './documents.ts';

export interface Inventory extends ConfigurationOf<'inventory'> {}
/** The fields of each version in an inventory, beside bucket and key. */
export type InventoryField = NonNullable<Inventory['OptionalFields']>[number];

/** Ordered by id; never an empty list. */
export const bucketInventories = family<readonly Inventory[]>('inventory' satisfies XmlFamily);

export const findInventory = (
  inventories: readonly Inventory[] | undefined,
  id: string,
): Inventory | undefined => inventories?.find(({ Id }) => Id === id);

/** The list with one added or replaced. */
export const withInventory = (
  inventories: readonly Inventory[] | undefined,
  inventory: Inventory,
): readonly Inventory[] =>
  [...(inventories ?? []).filter(({ Id }) => Id !== inventory.Id), inventory].sort((a, b) =>
    a.Id < b.Id ? -1 : 1,
  );

/** The list without one; undefined when it was the last. */
export function withoutInventory(
  inventories: readonly Inventory[] | undefined,
  id: string,
): readonly Inventory[] | undefined {
  const others = (inventories ?? []).filter(({ Id }) => Id !== id);
  return others.length === 0 ? undefined : others;
}
