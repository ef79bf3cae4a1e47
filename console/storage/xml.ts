/** Reads replies of the storage protocol. Names are local: the namespace is the same everywhere. */
export const childrenOf = (element: Element, name: string): readonly Element[] =>
  [...element.children].filter((child) => child.localName === name);

export const childOf = (element: Element, name: string): Element | undefined => childrenOf(element, name)[0];

/** The text of a child; undefined where there is none. */
export const textIn = (element: Element, name: string): string | undefined =>
  childOf(element, name)?.textContent ?? undefined;

/** Text that is written into a request's body. */
export const escapeXml = (text: string): string =>
  text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
