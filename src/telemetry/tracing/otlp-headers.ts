/** Headers as OTEL_EXPORTER_OTLP_HEADERS has them: `name=value`, separated by commas or lines, with percent-encoded values. */

export function readOtlpHeaders(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const item of text.split(/[,\n]/)) {
    const at = item.indexOf('=');
    if (at <= 0) continue;
    headers[item.slice(0, at).trim().toLowerCase()] = decode(item.slice(at + 1).trim());
  }
  return headers;
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
