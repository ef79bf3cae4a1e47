/** What an error of the driver says about the statement that it is for. */
import cassandra from 'cassandra-driver';

export const describeError = (cause: unknown): string =>
  cause instanceof Error ? cause.message : String(cause);
export const codeOf = (cause: unknown): number | undefined =>
  cause instanceof cassandra.errors.ResponseError ? cause.code : undefined;

export const { responseErrorCodes } = cassandra.types;
/** The server would refuse the statement at any time. */
export const isOurFault = (cause: unknown): boolean => {
  const code = codeOf(cause);
  return (
    cause instanceof TypeError ||
    cause instanceof cassandra.errors.ArgumentError ||
    code === responseErrorCodes.syntaxError ||
    code === responseErrorCodes.invalid ||
    code === responseErrorCodes.alreadyExists
  );
};
/** The statement cannot have had any effect. */
export const isRefusedUndone = (cause: unknown): boolean => {
  const code = codeOf(cause);
  return (
    isOurFault(cause) ||
    code === responseErrorCodes.unavailableException ||
    code === responseErrorCodes.overloaded ||
    code === responseErrorCodes.isBootstrapping
  );
};
