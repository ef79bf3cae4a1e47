/** Fields of the operator API whose names are those of secrets. */
export const isSecretField = (name: string): boolean =>
  /secret|token|password|^(?:key|cert|ca|seed)$/i.test(name);
