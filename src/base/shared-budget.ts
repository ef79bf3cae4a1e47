/** Counts bytes that are held in memory, up to a limit that several holders share: no holder takes all of it. */

export interface SharedBudget {
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
 * A holder may hold this many times as many bytes as are free. One holder alone gets three quarters; each further holder gets three
 * quarters of what is left then. So several holders of one client never take everything.
 */
export const shareOfFreeMax = 3;

/** The most that one holder gets of a budget, where it is alone. */
export const soleHolderPart = shareOfFreeMax / (shareOfFreeMax + 1);

/** @param shareMax how many times as much as is free a holder may hold */
export function sharedBudget(bytesMax: number, shareMax = shareOfFreeMax): SharedBudget {
  let taken = 0;
  const byHolder = new Map<string, number>();
  const hasSpace = (bytes: number, holder: string, freeSoonBytes = 0): boolean => {
    const left = bytesMax - taken - bytes + freeSoonBytes;
    const before = byHolder.get(holder) ?? 0;
    // A holder that holds nothing gets its first bytes in any case where they fit.
    return left >= 0 && (before === 0 || before + bytes <= shareMax * left);
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
  readonly #all: SharedBudget;
  readonly #anonymous: SharedBudget;

  constructor(bytesMax: number) {
    this.#all = sharedBudget(bytesMax);
    this.#anonymous = sharedBudget(bytesMax * anonymousPart);
  }

  /** Whether `take` would succeed. */
  hasSpace(bytes: number, { account, isAnonymous }: MemoryHolder): boolean {
    return this.#all.hasSpace(bytes, account) && (!isAnonymous || this.#anonymous.hasSpace(bytes, account));
  }

  /** Reserves more bytes until `give` returns them. @returns false where they do not fit */
  take(bytes: number, holder: MemoryHolder): boolean {
    if (!this.hasSpace(bytes, holder)) return false;
    this.add(bytes, holder);
    return true;
  }

  /** Reserves them where they do not fit, too. */
  add(bytes: number, { account, isAnonymous }: MemoryHolder): void {
    this.#all.add(bytes, account);
    if (isAnonymous) this.#anonymous.add(bytes, account);
  }

  give(bytes: number, { account, isAnonymous }: MemoryHolder): void {
    this.#all.give(bytes, account);
    if (isAnonymous) this.#anonymous.give(bytes, account);
  }

  get usedBytes(): number {
    return this.#all.usedBytes;
  }

  get limitBytes(): number {
    return this.#all.limitBytes;
  }
}
