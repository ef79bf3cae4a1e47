/** The address of a server for clients that take no `lookup`: it is resolved and checked before each connect. */
import { lookup } from 'node:dns/promises';
import { EgressRefused, type MayReach } from './guarded-agent.ts';

/** @throws EgressRefused when no address of the host may be reached */
export async function resolveGuarded(host: string, mayReach: MayReach): Promise<string> {
  const name = host.replace(/^\[|\]$/g, '');
  const found = await lookup(name, { all: true });
  const chosen = found.find(({ address }) => mayReach(address));
  if (chosen === undefined) throw new EgressRefused(name, found[0]?.address ?? 'no address');
  return chosen.address;
}
