/** Tables as CSV files (RFC 4180), made in the page from rows that it shows. */

export type CsvColumns<Row> = Readonly<Record<string, (row: Row) => string | number>>;

/** A spreadsheet reads a cell that begins with one of these as a formula; the apostrophe makes it a text. */
const formula = /^[=+\-@\t\r]/;

const toCell = (value: string | number): string => {
  if (typeof value === 'number') return String(value);
  const text = formula.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const toCsv = <Row>(columns: CsvColumns<Row>, rows: readonly Row[]): string =>
  [
    Object.keys(columns).join(','),
    ...rows.map((row) =>
      Object.values(columns)
        .map((read) => toCell(read(row)))
        .join(','),
    ),
    '',
  ].join('\r\n');

/** How long the address of the file is valid: the browser begins the download later than the click. */
const addressLifetimeMs = 60_000;

/** Downloads rows as a file. */
export function saveCsv<Row>(name: string, columns: CsvColumns<Row>, rows: readonly Row[]): void {
  const address = URL.createObjectURL(
    new Blob([toCsv(columns, rows)], { type: 'text/csv;charset=utf-8;header=present' }),
  );
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), addressLifetimeMs);
}
