/** The error body, the one that is written without a namespace: `writeXml(…, { namespace: '' })`. */
import { element, type Infer, optional, rest, text, token } from '../formats/codec.ts';

export const errorBody = element({
  Code: token,
  Message: text,
  /** Further elements by name, such as Key or ArgumentName. They must not be called like a field here. */
  elements: optional(rest),
  Resource: optional(text),
  RequestId: optional(token),
  HostId: optional(token),
});
export type ErrorBody = Infer<typeof errorBody>;
