/** The bodies of the operators' listings at service scope, which are this service's own. */
import { bool, date, element, int, many, optional, text, token } from '../../formats/codec.ts';

/** Entries of one page. */
export const recordsMax = 1000;
const paging = { IsTruncated: bool, NextContinuationToken: optional(text) };

export const auditResult = element({
  Entries: many(
    element({
      Time: date,
      RequestId: token,
      Action: token,
      Resource: text,
      Key: optional(text),
      Status: int(),
      Error: optional(token),
      Principal: optional(text),
      AccessKeyId: optional(text),
      Account: optional(text),
      SourceIp: text,
      Count: optional(int()),
      Page: optional(int()),
      Keys: optional(
        many(
          element({
            Key: text,
            VersionId: optional(token),
            Status: optional(int()),
            Error: optional(token),
          }),
          { name: 'Item', max: recordsMax },
        ),
      ),
    }),
    { name: 'Entry', max: recordsMax },
  ),
  ...paging,
});

export const deadLettersResult = element({
  Entries: many(
    element({
      Time: date,
      Since: date,
      RequestId: token,
      Sink: text,
      /** Names the letter in a redrive. */
      Id: text,
      Attempts: int(),
      Error: text,
      /** The JSON that was to be delivered. */
      Message: text,
    }),
    { name: 'Entry', max: recordsMax },
  ),
  ...paging,
});
