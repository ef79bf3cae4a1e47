/** Between the tabs of this browser: a log-in or log-out in one is seen in the others. */
export type Note = 'logged-in' | 'logged-out';

const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel('sluice-session') : undefined;

export const tellTabs = (note: Note): void => channel?.postMessage(note);

/** @returns stops listening */
export function hearTabs(listener: (note: Note) => void): () => void {
  const hear = ({ data }: MessageEvent<unknown>) => {
    if (data === 'logged-in' || data === 'logged-out') listener(data);
  };
  channel?.addEventListener('message', hear);
  return () => channel?.removeEventListener('message', hear);
}
