/** Requests by their outcome, as operators ask for them. */

/** @param asked a status such as `503`, a class such as `5xx`, or an error code such as `AccessDenied` */
export function hasStatus(
  { status, code }: { readonly status?: number | undefined; readonly code?: string | undefined },
  asked: string,
): boolean {
  if (asked === code) return true;
  if (status === undefined) return false;
  return asked === String(status) || asked.toLowerCase() === `${String(status)[0]}xx`;
}
