/** The body of RestoreObject: https://docs.aws.amazon.com/AmazonS3/latest/API/API_RestoreObject.html */
import { element, type Infer, int, oneOf, optional, text, token } from '../../formats/codec.ts';

const tier = oneOf('Standard', 'Bulk', 'Expedited');
const anything = element({}, { unknown: 'ignore' });

/** Root `RestoreRequest`. What belongs to Select is read so that a handler can say that there is none. */
export const restoreRequest = element({
  Days: optional(int()),
  GlacierJobParameters: optional(element({ Tier: tier })),
  Type: optional(token),
  Tier: optional(tier),
  Description: optional(text),
  SelectParameters: optional(anything),
  OutputLocation: optional(anything),
});
export type RestoreRequest = Infer<typeof restoreRequest>;
