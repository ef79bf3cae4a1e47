/** Client libraries are optional dependencies: a target of a kind whose library is missing says how it is installed. */

export async function loadClient<T>(names: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const { code } = cause as { readonly code?: string };
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw cause;
    throw new Error(`its client library is missing: run \`npm install ${names}\` beside the gateway`, {
      cause,
    });
  }
}
