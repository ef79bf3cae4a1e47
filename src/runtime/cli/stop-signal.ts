/** SIGINT (Ctrl-C) and SIGTERM as an abort signal, for commands that may take long. */

/** @param advice how the operator goes on; the message of the signal's reason has it */
export function stopSignal(advice: string): AbortSignal {
  const stopping = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => stopping.abort(new Error(`interrupted; ${advice}`)));
  return stopping.signal;
}

/** One line, because a stack would look like a defect. */
export const describeStop = ({ reason }: AbortSignal): string => (reason as Error).message;
