/** The metadata of a process that writes nothing more once the signal aborts, as after its death. */
import type { MetadataStore } from '../../src/ports/metadata-store.ts';

export const deadAfter = (signal: AbortSignal, metadata: MetadataStore): MetadataStore =>
  Object.create(metadata, {
    apply: {
      value: async (...call: Parameters<MetadataStore['apply']>) => {
        if (!signal.aborted) await metadata.apply(...call);
      },
    },
    commit: {
      value: async (...call: Parameters<MetadataStore['commit']>) =>
        signal.aborted ? new Promise(() => {}) : metadata.commit(...call),
    },
  });
