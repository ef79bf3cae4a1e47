/**
 * Bodies of the Object Lock operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectLockConfiguration.html,
 * …/API_PutObjectRetention.html and …/API_PutObjectLegalHold.html
 */
import { checked, date, element, type Infer, int, oneOf, optional } from '../../formats/codec.ts';

export const retentionMode = oneOf('GOVERNANCE', 'COMPLIANCE');
export type RetentionMode = Infer<typeof retentionMode>;

/** The handler checks the limits of the period. */
const defaultRetention = checked(
  element({ Mode: retentionMode, Days: optional(int()), Years: optional(int()) }),
  ({ Days, Years }) =>
    (Days === undefined) === (Years === undefined) ? 'must hold Days or Years' : undefined,
);
export type DefaultRetention = Infer<typeof defaultRetention>;

/** Root `ObjectLockConfiguration`. */
export const objectLockConfiguration = element({
  ObjectLockEnabled: optional(oneOf('Enabled')),
  Rule: optional(element({ DefaultRetention: defaultRetention })),
});
export type ObjectLockConfiguration = Infer<typeof objectLockConfiguration>;

/** Root `Retention`; an empty one removes the retention. */
export const retention = checked(
  element({ Mode: optional(retentionMode), RetainUntilDate: optional(date) }),
  ({ Mode, RetainUntilDate }) =>
    (Mode === undefined) === (RetainUntilDate === undefined)
      ? undefined
      : 'must hold both Mode and RetainUntilDate, or neither',
);
export type Retention = Infer<typeof retention>;

/** Root `LegalHold`. */
export const legalHold = element({ Status: oneOf('ON', 'OFF') });
export type LegalHold = Infer<typeof legalHold>;
