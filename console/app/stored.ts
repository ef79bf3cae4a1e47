/** Choices that this browser remembers. A browser may forbid storage; then a choice lasts as long as the page. */
export function readStored(name: string): string | undefined {
  try {
    return localStorage.getItem(`sluice-${name}`) ?? undefined;
  } catch {
    return undefined;
  }
}

export function writeStored(name: string, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(`sluice-${name}`);
    else localStorage.setItem(`sluice-${name}`, value);
  } catch {}
}
