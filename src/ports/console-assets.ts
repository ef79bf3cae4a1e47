/** The built console (console/build.ts): a page that the gateway fills in, and files whose names contain the hash of their content. */
export interface ConsoleAsset {
  readonly bytes: Uint8Array;
  readonly encoding?: 'gzip';
}

export interface ConsoleAssets {
  /** The template of the page; undefined where the console was not built. */
  page(): Promise<string | undefined>;
  /** @param name without a slash; undefined for a file that the build does not have */
  read(name: string, accepts: { readonly gzip: boolean }): Promise<ConsoleAsset | undefined>;
}
