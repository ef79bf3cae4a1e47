/** The messages of a starting process to its primary. */

export const isReady = (
  message: unknown,
): message is { readonly url: string; readonly installation?: string } =>
  (message as { type?: unknown } | null)?.type === 'sluice:ready';

export const isRefused = (message: unknown): message is { readonly why: string } =>
  (message as { type?: unknown } | null)?.type === 'sluice:refused';

/** Reports why this process cannot start, so that the primary prints it once for all of them. */
export function reportRefused(why: string): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve();
    else process.send({ type: 'sluice:refused', why }, undefined, undefined, () => resolve());
  });
}

/** Reports that this process serves. */
export function reportReady(url: string, installation: string | undefined): void {
  process.send?.({ type: 'sluice:ready', url, installation });
}
