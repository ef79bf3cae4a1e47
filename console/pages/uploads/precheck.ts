/** What would refuse an upload is asked before its first byte: the key itself, the policies, the quotas of bucket and account. */
import { type Answer, call } from '../../app/client.ts';
import { storage } from '../../storage/client.ts';
import { multipartFrom } from './transfer.ts';

export interface Planned {
  readonly key: string;
  readonly size: number;
  readonly isOverwriting: boolean;
}

export type Obstacle =
  | { readonly by: 'key'; readonly reason: 'length' | 'dots' | 'text'; readonly bytes: number }
  | { readonly by: 'size' }
  | { readonly by: 'policy'; readonly action: string; readonly reason: string }
  | {
      readonly by: 'quota';
      readonly limit: 'bucketBytes' | 'bucketObjects' | 'objectBytes' | 'accountBytes';
      readonly max: number;
      readonly used: number;
      readonly needed: number;
    };

/** An upload that was not begun, because it would be refused. */
export class Hindered extends Error {
  readonly obstacle: Obstacle;

  constructor(obstacle: Obstacle) {
    super(obstacle.by);
    this.obstacle = obstacle;
  }
}

/** Questions of one request. */
export const checkedAtOnce = 190;
const keyBytesMax = 1_024;
const sizeMax = 5 * 1024 ** 4;
const encoder = new TextEncoder();

function obstacleOf({ key, size }: Planned): Obstacle | undefined {
  const { length: bytes } = encoder.encode(key);
  if (bytes > keyBytesMax) return { by: 'key', reason: 'length', bytes };
  if (!key.isWellFormed()) return { by: 'key', reason: 'text', bytes };
  // A browser resolves these parts of an address before it sends it.
  if (key.split('/').some((part) => part === '.' || part === '..'))
    return { by: 'key', reason: 'dots', bytes };
  return size > sizeMax ? { by: 'size' } : undefined;
}

interface Limit {
  readonly limit: 'bucketBytes' | 'bucketObjects' | 'accountBytes';
  readonly max: number;
  /** With what was found to fit so far. */
  used: number;
}

interface Room {
  readonly objectMax: number;
  readonly limits: readonly Limit[];
  readonly keepsVersions: boolean;
}

type Bucket = Answer<'GetBucket'>;

/** The quotas that the caller may read; the gateway judges by the others itself. */
async function readRoom(
  bucket: string,
  may: { readonly readBucket: boolean; readonly readAccount: boolean },
): Promise<Room | undefined> {
  if (!may.readBucket) return undefined;
  const found: Bucket = await call('GetBucket', { path: { name: bucket } });
  const account = may.readAccount
    ? await call('GetAccount', { path: { account: found.owner } }).catch(() => undefined)
    : undefined;
  const { maxBytes = 0, maxObjects = 0, maxBytesPerObject = 0 } = found.quota ?? {};
  const limits: readonly Limit[] = [
    { limit: 'bucketBytes', max: maxBytes, used: found.bytes },
    { limit: 'bucketObjects', max: maxObjects, used: found.objects },
    { limit: 'accountBytes', max: account?.quota?.totalMaxBytes ?? 0, used: account?.bytes ?? 0 },
  ];
  return {
    objectMax: maxBytesPerObject,
    limits: limits.filter(({ max }) => max > 0),
    keepsVersions: found.versioning === 'Enabled',
  };
}

const mayAsk = (bucket: string) => [{ action: 'admin:GetBucket', bucket }, { action: 'admin:GetAccount' }];

/**
 * @param reserved what other uploads of this page will still store in the bucket
 * @returns the obstacle of each, in their order; those that are asked about must be at most `checkedAtOnce`
 * @throws Refused, Unreachable
 */
export async function precheck(
  bucket: string,
  planned: readonly Planned[],
  reserved: { readonly bytes: number; readonly objects: number },
): Promise<readonly (Obstacle | undefined)[]> {
  const action = 's3:PutObject';
  const questions = planned.map(({ key }) => ({
    action,
    bucket,
    key: key.toWellFormed().slice(0, keyBytesMax),
  }));
  const general = mayAsk(bucket);
  const { answers } = await call('CheckPermissions', { body: { questions: [...general, ...questions] } });
  const [readBucket, readAccount] = answers.map(({ allowed }) => allowed);
  const room = await readRoom(bucket, { readBucket: readBucket === true, readAccount: readAccount === true });
  for (const limit of room?.limits ?? [])
    limit.used += limit.limit === 'bucketObjects' ? reserved.objects : reserved.bytes;
  const found: (Obstacle | undefined)[] = [];
  for (const [index, each] of planned.entries()) {
    const answer = answers[general.length + index];
    const denied: Obstacle | undefined =
      answer?.allowed === false ? { by: 'policy', action, reason: answer.reason ?? '' } : undefined;
    found.push(obstacleOf(each) ?? denied ?? (room && (await overQuota(bucket, each, room))));
  }
  return found;
}

async function overQuota(bucket: string, planned: Planned, room: Room): Promise<Obstacle | undefined> {
  const { size, key, isOverwriting } = planned;
  if (room.objectMax > 0 && size > room.objectMax)
    return { by: 'quota', limit: 'objectBytes', max: room.objectMax, used: 0, needed: size };
  const neededBy = (freed: number | undefined) => (limit: Limit) =>
    limit.limit === 'bucketObjects' ? (freed === undefined ? 1 : 0) : size - (freed ?? 0);
  const over = (freed: number | undefined) =>
    room.limits.find((limit) => limit.used + neededBy(freed)(limit) > limit.max);
  // What is overwritten makes room, unless its version stays. Parts need their room before that.
  const mayFree = isOverwriting && !room.keepsVersions && size < multipartFrom;
  const freed = mayFree && over(undefined) !== undefined ? await sizeOf(bucket, key) : undefined;
  const limit = over(freed);
  if (limit !== undefined)
    return {
      by: 'quota',
      limit: limit.limit,
      max: limit.max,
      used: limit.used,
      needed: neededBy(freed)(limit),
    };
  for (const each of room.limits) each.used += neededBy(freed)(each);
  return undefined;
}

const sizeOf = async (bucket: string, key: string): Promise<number | undefined> => {
  try {
    return Number((await storage({ method: 'HEAD', bucket, key })).header('content-length') ?? 0);
  } catch {
    return undefined;
  }
};
