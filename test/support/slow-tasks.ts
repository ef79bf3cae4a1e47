/** A process in which each save of a task takes two seconds, so that a test sees its states. */
import type { GatewayWorld } from './gateway.ts';

export function slowTasks({ context }: Pick<GatewayWorld, 'context'>): GatewayWorld['context'] {
  const { metadata, clock } = context;
  const slow: typeof metadata = Object.create(metadata, {
    commit: {
      value: async (...call: Parameters<typeof metadata.commit>) => {
        if (call[0].table.name === 'tasks') await clock.sleep(2_000);
        return metadata.commit(...call);
      },
    },
  });
  return { ...context, metadata: slow };
}
