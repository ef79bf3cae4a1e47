/** State that is not in a component: components that show it render again when it changes. */
import { useEffect, useState } from 'preact/hooks';

export class Changes {
  readonly #listeners = new Set<() => void>();

  publish(): void {
    for (const each of this.#listeners) each();
  }

  /** @returns stops listening */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }
}

/** Renders the component again with each change. */
export function useChanges(changes: Pick<Changes, 'listen'>): void {
  const [, render] = useState(0);
  useEffect(() => changes.listen(() => render((n) => n + 1)), [changes]);
}
