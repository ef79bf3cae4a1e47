/** Text for a terminal: names that tenants chose may have escape sequences, line breaks and marks that turn the direction of text. */
export const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, '\ufffd');
