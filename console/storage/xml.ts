/** Reads replies of the storage protocol. Names are local: the namespace is the same everywhere. */
export const childrenOf = (element: Element, name: string): readonly Element[] =>
  [...element.children].filter((child) => child.localName === name);

export const childOf = (element: Element, name: string): Element | undefined => childrenOf(element, name)[0];

/** The text of a child; undefined where there is none. */
export const textIn = (element: Element, name: string): string | undefined =>
  childOf(element, name)?.textContent ?? undefined;

/**
 * A name in URL encoding, as in a form. The keys of lists are asked for so, because XML cannot hold every character that a key may have, and
 * those in events have it.
 */
export const decodeName = (text = ''): string => decodeURIComponent(text.replaceAll('+', ' '));

/** Text that is written into a request's body. */
export const escapeXml = (text: string): string =>
  text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
