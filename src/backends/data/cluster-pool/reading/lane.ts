/** A counting semaphore, first come, first served. */
export class Lane {
  readonly #max: number;
  #taken = 0;
  readonly #waiting: { readonly amount: number; readonly admit: () => void }[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  /** An amount above the total takes the total. @returns the amount to give back */
  async take(amount: number): Promise<number> {
    const wanted = Math.min(amount, this.#max);
    if (this.#waiting.length === 0 && this.#taken + wanted <= this.#max) this.#taken += wanted;
    else await new Promise<void>((resolve) => this.#waiting.push({ amount: wanted, admit: resolve }));
    return wanted;
  }

  give(amount: number): void {
    this.#taken -= amount;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#taken + next.amount > this.#max) return;
      this.#waiting.shift();
      this.#taken += next.amount;
      next.admit();
    }
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const taken = await this.take(1);
    try {
      return await work();
    } finally {
      this.give(taken);
    }
  }
}
