/** Lifecycle configurations for tests. */

/** Moves every version, small ones too, to a storage class a day after it was written or became noncurrent. */
export const movesAfterADay = (to: string): string => {
  const storageClass = `<StorageClass>${to}</StorageClass>`;
  const moves =
    `<Transition><Days>1</Days>${storageClass}</Transition>` +
    `<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays>${storageClass}</NoncurrentVersionTransition>`;
  const sizes = '<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>';
  return `<LifecycleConfiguration><Rule><ID>move</ID><Status>Enabled</Status>${sizes}${moves}</Rule></LifecycleConfiguration>`;
};
