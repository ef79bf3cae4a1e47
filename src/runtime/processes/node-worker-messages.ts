/** What a process of several tells its primary about its start. */

export const isReady = (
  message: unknown,
): message is { readonly url: string; readonly installation?: string } =>
  (message as { type?: unknown } | null)?.type === 'sluice:ready';

export const isRefused = (message: unknown): message is { readonly why: string } =>
  (message as { type?: unknown } | null)?.type === 'sluice:refused';

/** In a process: tells the primary why it cannot start, so that it is said once and not by each. */
export function reportRefused(why: string): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve();
    else process.send({ type: 'sluice:refused', why }, undefined, undefined, () => resolve());
  });
}

/** In a process: tells the primary that it serves. */
export function reportReady(url: string, installation: string | undefined): void {
  process.send?.({ type: 'sluice:ready', url, installation });
}
