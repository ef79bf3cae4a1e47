/**
 * Multipart uploads of this site that are open at a peer. Each is stored before its first part, so that the replicator which follows a killed one
 * aborts it: parts of an open upload take room at the peer for ever.
 */
import { inParallel } from '../../../base/in-parallel.ts';
import type { Context } from '../../../context.ts';
import {
  everyTask,
  putTask,
  putTasks,
  type Task,
  type TaskKind,
} from '../../../metadata/background/tasks.ts';
import type { PeerAccess, PeerRequests } from '../../../ports/peer-requests.ts';
import type { Destination } from './destination.ts';

interface OpenUpload {
  readonly peer: string;
  /** The bucket at the peer. */
  readonly bucket: string;
  readonly key: string;
  readonly uploadId: string;
}
const uploads: TaskKind<OpenUpload> = { kind: 'replication-uploads' };

/** A peer that is not reached for so long has probably ended the upload by its own rules. */
const keptMs = 7 * 24 * 60 * 60 * 1000;
/** Uploads that are aborted at a time. */
const abortsMax = 8;

/** Stores an upload. @returns a function that forgets it, once it is completed or aborted */
export async function rememberUpload(
  { metadata, hasher }: Pick<Context, 'metadata' | 'hasher'>,
  upload: OpenUpload,
): Promise<() => Promise<void>> {
  const name = hasher.sha256Hex(`${upload.peer}/${upload.bucket}/${upload.key}?${upload.uploadId}`);
  const expiresAt = (await metadata.now()) + keptMs;
  const outcome = await putTask(metadata, uploads, { name, state: upload, expect: 'absent', expiresAt });
  return async () => {
    if (outcome.applied)
      await putTasks(metadata, uploads, { changes: [{ remove: { name }, expect: outcome.revision }] });
  };
}

type Ctx = Pick<Context, 'metadata'> & { readonly peers: PeerRequests };

/** Aborts the uploads that former replicators left. One whose peer does not answer stays for the next replicator. */
export async function abortLeftUploads(
  ctx: Ctx,
  open: (destination: Destination) => Promise<{ readonly access: PeerAccess }>,
  signal: AbortSignal,
): Promise<void> {
  const left: Task<OpenUpload>[] = [];
  for await (const task of everyTask(ctx.metadata, uploads)) left.push(task);
  const silent = new Set<string>();
  await inParallel(abortsMax, left, async ({ name, state, revision }) => {
    const { peer, bucket, key, uploadId } = state;
    if (silent.has(peer)) return;
    try {
      const { access } = await open({ peer, bucket });
      const query = [['uploadId', uploadId]] as const;
      await ctx.peers.send(access, { method: 'DELETE', bucket, key, query }, signal);
    } catch {
      signal.throwIfAborted();
      silent.add(peer);
      return;
    }
    await putTasks(ctx.metadata, uploads, { changes: [{ remove: { name }, expect: revision }] });
  });
}
