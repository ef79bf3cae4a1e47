/** Policies of the largest accepted size, whose compiled form is many times as large as their text. */

const bucketArn = 'arn:aws:s3:::bucket';
const allow = { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: `${bucketArn}/*` };
const policyText = (statements: readonly object[]): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements });

/** As many results of `make` as fit into the text. */
function filled(
  make: (index: number) => string,
  wrap: (values: readonly string[]) => readonly object[],
  room: number,
) {
  const values: string[] = [];
  for (let size = policyText(wrap([])).length; ; ) {
    const value = make(values.length);
    size += JSON.stringify(value).length + 1;
    if (size > room) return policyText(wrap(values));
    values.push(value);
  }
}

const like = (values: readonly string[]) => [
  { ...allow, Condition: { StringLike: { 'aws:UserAgent': values } } },
];
const equal = (values: readonly string[]) => [
  { ...allow, Condition: { StringEquals: { 'aws:UserAgent': values } } },
];
const code = (index: number): string => index.toString(36);

/** Policies by the element that makes them large. `room` is the size of the text in bytes. */
export const heavyPolicies = (room: number): Readonly<Record<string, string>> => ({
  'globs with ?': filled((index) => `*?${code(index)}*`, like, room),
  'long globs': filled((index) => `*${`${code(index)}abcdefghijklmnopqrstuvwxyz0123456789`}*`, like, room),
  'one long glob': filled(() => `*${'abcdefghijklmnopqrstuvwxyz0123456789'.repeat(30)}*`, like, room),
  'short values': filled(code, equal, room),
  variables: filled((index) => `*\${aws:referer}${code(index)}*`, like, room),
  'ARN patterns': filled(
    (index) => `${bucketArn}/*${code(index)}?*`,
    (values) => [{ ...allow, Resource: values.length === 0 ? [`${bucketArn}/*`] : values }],
    room,
  ),
  'small statements': filled(
    () => '',
    (values) => (values.length === 0 ? [allow] : values).map(() => allow),
    room / 40,
  ),
});
