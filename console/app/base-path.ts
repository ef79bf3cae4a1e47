/** Where the gateway is mounted, '' or a path such as `/s3`: the scripts lie under `<base>/console/assets/`. */
export const basePath = new URL(import.meta.url).pathname.replace(/\/console\/assets\/[^/]*$/, '');

/** The address of the storage protocol: this origin, or another where `SVC_ADMIN_LISTEN` separates them. */
export const storageUrl = (): string => {
  const stated = document.querySelector('meta[name=storage]')?.getAttribute('content') ?? '';
  return stated === '' ? location.origin + basePath : stated;
};
