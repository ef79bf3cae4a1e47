/** Counts bytes that are held in memory, up to a limit that several holders share: no holder takes all of it. */

export interface BodyBudget {
  readonly usedBytes: number;
  readonly limitBytes: number;
  usedBytesOf(holder: string): number;
  /** Whether `take` would succeed, once further bytes are free. */
  hasSpace(bytes: number, holder: string, freeSoonBytes?: number): boolean;
  /** Reserves more bytes until `give` returns them. @returns false where they do not fit */
  take(bytes: number, holder: string): boolean;
  /** Reserves them where they do not fit, too. */
  add(bytes: number, holder: string): void;
  give(bytes: number, holder: string): void;
}

/**
 * A holder may hold this many times as many bytes as are free. So the first one gets three quarters, and several holders that belong
 * together leave some to each further one: an equal part of what is left, and not of the whole, is what they can take.
 */
export const shareOfFreeMax = 3;

export function bodyBudget(bytesMax: number): BodyBudget {
  let taken = 0;
  const byHolder = new Map<string, number>();
  const hasSpace = (bytes: number, holder: string, freeSoonBytes = 0): boolean => {
    const left = bytesMax - taken - bytes + freeSoonBytes;
    const before = byHolder.get(holder) ?? 0;
    // A holder that holds nothing gets its first bytes in any case where they fit.
    return left >= 0 && (before === 0 || before + bytes <= shareOfFreeMax * left);
  };
  const add = (bytes: number, holder: string): void => {
    taken += bytes;
    byHolder.set(holder, (byHolder.get(holder) ?? 0) + bytes);
  };
  return {
    limitBytes: bytesMax,
    get usedBytes() {
      return taken;
    },
    usedBytesOf: (holder) => byHolder.get(holder) ?? 0,
    hasSpace,
    take(bytes, holder) {
      if (!hasSpace(bytes, holder)) return false;
      add(bytes, holder);
      return true;
    },
    add,
    give(bytes, holder) {
      taken -= bytes;
      const reserved = (byHolder.get(holder) ?? 0) - bytes;
      if (reserved > 0) byHolder.set(holder, reserved);
      else byHolder.delete(holder);
    },
  };
}

/**
 * Takes the same bytes from several budgets, or from none.
 * @param shares each budget with the holder whose share of it is taken
 * @returns a function that gives them back; undefined where they do not fit in one of them
 */
export function takeFromAll(
  bytes: number,
  shares: readonly (readonly [budget: BodyBudget, holder: string])[],
): (() => void) | undefined {
  if (!shares.every(([budget, holder]) => budget.hasSpace(bytes, holder))) return undefined;
  for (const [budget, holder] of shares) budget.add(bytes, holder);
  return () => {
    for (const [budget, holder] of shares) budget.give(bytes, holder);
  };
}

/** For whose requests memory is reserved. */
export interface MemoryHolder {
  /**
   * Of an anonymous caller: the account of the bucket, which lets it in; '' where there is none. Of a form whose signer is not known yet:
   * the network of its sender.
   */
  readonly account: string;
  readonly isAnonymous: boolean;
}

/** The part that anonymous callers of all buckets may hold together. */
const anonymousPart = 1 / 2;

/**
 * Memory that accounts share. Anonymous callers count for the account of the bucket, because it could have twice as much
 * otherwise. They have half of it at most, so they never take all that is left to the account itself.
 */
export class SharedMemory {
  readonly all: BodyBudget;
  readonly #anonymous: BodyBudget;

  constructor(bytesMax: number) {
    this.all = bodyBudget(bytesMax);
    this.#anonymous = bodyBudget(bytesMax * anonymousPart);
  }

  sharesOf({ account, isAnonymous }: MemoryHolder): readonly (readonly [BodyBudget, string])[] {
    return isAnonymous
      ? [
          [this.all, account],
          [this.#anonymous, account],
        ]
      : [[this.all, account]];
  }

  /** Reserves more bytes until `give` returns them. @returns false where they do not fit */
  take(bytes: number, holder: MemoryHolder): boolean {
    return takeFromAll(bytes, this.sharesOf(holder)) !== undefined;
  }

  give(bytes: number, holder: MemoryHolder): void {
    for (const [budget, account] of this.sharesOf(holder)) budget.give(bytes, account);
  }

  get usedBytes(): number {
    return this.all.usedBytes;
  }

  get limitBytes(): number {
    return this.all.limitBytes;
  }
}
