import { handleStorage } from '../../../storage.ts';

// The path of a bucket, and a key, may end in a slash.
export const trailingSlash = 'ignore';

/** All methods. */
export const fallback = ({ request }: { readonly request: Request }): Promise<Response> =>
  handleStorage(request);
