/** The level of the log of every process of this node, until it is restarted. */
import { fail } from '../../../errors/refusal.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

const announceMs = 5_000;

export const GetLogLevel: AdminHandler<'GetLogLevel'> = async ({ logLevel, config }) =>
  jsonReply({ level: logLevel?.get() ?? config.SVC_LOG_LEVEL });

/** `processes` is `some` where a process of the node has not confirmed it in time. */
export const PutLogLevel: AdminHandler<'PutLogLevel'> = async (
  { logLevel, siblings, telemetry },
  { body, requestId, record },
) => {
  const { level } = body;
  record?.about('log-level');
  if (logLevel === undefined)
    throw fail('NotImplemented', 'The application that embeds this gateway owns its log.');
  const before = logLevel.get();
  record?.change?.({ level: before }, { level });
  logLevel.set(level);
  const isWhole = await siblings.announce({ topic: 'log-level', about: level }, announceMs);
  // Written at the level that is always on.
  telemetry.log('ERROR', 'the level of the log was changed', { request_id: requestId, before, level });
  return jsonReply({ level, processes: isWhole ? 'all' : 'some' });
};
