/** The key provider as the process that answers sees it: whether it answers now, and its circuit breaker. */
import { KeyFailure } from '../../../ports/crypto/key-provider.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { seconds } from '../times.ts';

export const GetKeyProvider: AdminHandler<'GetKeyProvider'> = async ({ keys, config }) => {
  const provider = config.SVC_KEY_PROVIDER;
  if (keys === undefined || provider === undefined) return jsonReply({ provider: 'none' });
  const problem = await keys.probe?.().catch((cause: unknown) => {
    if (cause instanceof KeyFailure) return cause.message;
    throw cause;
  });
  const circuit = keys.circuit?.();
  return jsonReply({
    provider,
    state: problem === undefined ? 'ok' : 'failed',
    ...(problem === undefined ? {} : { problem }),
    ...(circuit && { circuit: circuit.isOpen ? 'open' : 'closed', failures: circuit.failures }),
    ...(circuit?.lastFailure && {
      lastFailure: { at: seconds(circuit.lastFailure.at), reason: circuit.lastFailure.message },
    }),
  });
};
