/** A counting semaphore: at most so many pieces of work run at a time, the others wait in the order of their arrival. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(max: number) {
    this.#free = max;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
