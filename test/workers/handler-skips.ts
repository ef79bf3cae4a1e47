/** Tests of handlers that are skipped in workerd, with the reasons. The list may only shrink. */
export const handlerSkips: Readonly<Record<string, string>> = {
  'needs a length, and refuses what is longer than 5 GiB before a byte is read':
    'the lengths that it sends are not those of its bodies, which an HTTP client cannot send',
  'a client that goes away leaves no object, and after gc no chunk':
    'the client of this suite sends whole bodies',
};
