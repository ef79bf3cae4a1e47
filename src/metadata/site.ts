/**
 * The id of this site among the sites that replicate to each other: the id of the installation. Where metadata names no installation, as
 * metadata in memory, an id is drawn once.
 */
import type { Caches } from '../base/bounded-cache.ts';
import { toHex } from '../base/text/hex.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { Random } from '../ports/random.ts';
import { findTask, type TaskKind } from './background/tasks.ts';
import { findInstallation } from './installation.ts';
import { tasks } from './records/tasks.ts';

const kind: TaskKind<{ readonly id: string }> = { kind: 'site' };

class Site {
  id: Promise<string> | undefined;
}

interface Ctx {
  readonly caches: Caches;
  readonly metadata: Pick<MetadataStore, 'get' | 'commit'>;
  readonly random: Random;
}

/** Read once for each process. */
export function findSite(ctx: Ctx): Promise<string> {
  const site = ctx.caches.of(Site);
  site.id ??= readSite(ctx).catch((cause: unknown) => {
    site.id = undefined;
    throw cause;
  });
  return site.id;
}

async function readSite({ metadata, random }: Omit<Ctx, 'caches'>): Promise<string> {
  const installation = await findInstallation(metadata);
  if (installation !== undefined) return installation.state.id;
  const found = await findTask(metadata, kind, '');
  if (found !== undefined) return found.state.id;
  const id = toHex(random.bytes(16));
  const put = { kind: kind.kind, name: '', state: { id } };
  const outcome = await metadata.commit({ table: tasks, in: { kind: kind.kind } }, [
    { put, expect: 'absent' },
  ]);
  return outcome.applied ? id : readSite({ metadata, random });
}
