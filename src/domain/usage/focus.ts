/**
 * Amounts as charges of the FinOps Open Cost and Usage Specification, https://focus.finops.org/focus-columns/. No imports that run: the
 * console writes the same columns.
 */

/** What FOCUS calls a charge: an amount of one thing that has a price. */
export interface Charge {
  readonly payer: string;
  readonly user: string;
  readonly day: string;
  readonly bucketId: string;
  readonly bucket: string;
  readonly sku: string;
  readonly says: string;
  readonly amount: string | number;
  readonly unit: string;
}

/** A time of FOCUS: the first moment of a day. */
const at = (day: string): string => `${day}T00:00:00Z`;
const dayMs = 86_400_000;
const nextDay = (day: string): string => new Date(Date.parse(at(day)) + dayMs).toISOString().slice(0, 10);
const startOfMonth = (day: string): string => `${day.slice(0, 7)}-01`;
const nextMonth = (day: string): string => {
  const [year = 0, month = 1] = day.split('-').map(Number);
  return new Date(Date.UTC(year, month, 1)).toISOString().slice(0, 10);
};

/** The gateway knows amounts, and neither prices nor who sells: such columns are empty, for the invoice generator to fill. */
const unknown = () => '';

/** The columns that versions 1.0 to 1.3 demand of every dataset, and further ones that the gateway knows. An empty field is null. */
export const focusColumns = {
  BilledCost: unknown,
  BillingAccountId: ({ payer }) => payer,
  BillingAccountName: unknown,
  BillingCurrency: unknown,
  BillingPeriodStart: ({ day }) => at(startOfMonth(day)),
  BillingPeriodEnd: ({ day }) => at(nextMonth(day)),
  ChargeCategory: () => 'Usage',
  // Null: no row corrects an earlier one, because closed days never change.
  ChargeClass: () => '',
  ChargeDescription: ({ says }) => says,
  ChargeFrequency: () => 'Usage-Based',
  ChargePeriodStart: ({ day }) => at(day),
  ChargePeriodEnd: ({ day }) => at(nextDay(day)),
  ConsumedQuantity: ({ amount }) => amount,
  ConsumedUnit: ({ unit }) => unit,
  ContractedCost: unknown,
  EffectiveCost: unknown,
  HostProviderName: unknown,
  InvoiceIssuerName: unknown,
  ListCost: unknown,
  PricingQuantity: ({ amount }) => amount,
  PricingUnit: ({ unit }) => unit,
  ProviderName: unknown,
  PublisherName: unknown,
  ResourceId: ({ bucketId }) => bucketId,
  ResourceName: ({ bucket }) => bucket,
  ResourceType: ({ bucketId }) => (bucketId === '' ? '' : 'Bucket'),
  ServiceCategory: () => 'Storage',
  ServiceName: () => 'Object Storage',
  ServiceProviderName: unknown,
  ServiceSubcategory: () => 'Object Storage',
  SkuId: ({ sku }) => sku,
  SubAccountId: ({ user }) => user,
  SubAccountName: unknown,
} as const satisfies Readonly<Record<string, (charge: Charge) => string | number>>;

interface StorageAmount extends Pick<Charge, 'day' | 'bucket' | 'bucketId'> {
  readonly owner: string;
  readonly storageClass: string;
  readonly byteSeconds: string;
}

export const storageCharge = (row: StorageAmount): Charge => ({
  payer: row.owner,
  user: row.owner,
  day: row.day,
  bucketId: row.bucketId,
  bucket: row.bucket,
  sku: row.storageClass,
  says: `Storage, ${row.storageClass}`,
  amount: row.byteSeconds,
  unit: 'B-Seconds',
});

/** What of the traffic has a price. */
const amounts = [
  { field: 'requestsA', says: 'Requests, class A', unit: 'Requests' },
  { field: 'requestsB', says: 'Requests, class B', unit: 'Requests' },
  { field: 'ingressBytes', says: 'Bytes received', unit: 'B' },
  { field: 'egressBytes', says: 'Bytes sent', unit: 'B' },
] as const;

interface TrafficAmount extends Pick<Charge, 'day' | 'bucket' | 'bucketId' | 'payer'> {
  readonly requester: string;
  readonly requestsA: number;
  readonly requestsB: number;
  readonly ingressBytes: number;
  readonly egressBytes: number;
}

export const trafficCharges = (row: TrafficAmount): readonly Charge[] =>
  amounts
    .filter(({ field }) => row[field] > 0)
    .map(({ field, says, unit }) => ({
      payer: row.payer,
      user: row.requester,
      day: row.day,
      bucketId: row.bucketId,
      bucket: row.bucket,
      sku: field,
      says,
      amount: row[field],
      unit,
    }));
