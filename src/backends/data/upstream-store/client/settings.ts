/** The settings of one upstream: an endpoint of the public API, and a bucket. */
export interface Upstream {
  /** The cluster that it is. */
  readonly id: string;
  /** `http` or `https`, without a path. */
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  /** A prefix of the names of all objects, so that the bucket can be shared. */
  readonly prefix: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** The bucket's place in a URL. */
  readonly style: 'path' | 'virtual-host';
  /** PEM; the certificates that the runtime trusts when absent. */
  readonly ca?: string | undefined;
  /** No certificate is checked: any server that answers counts as the upstream. */
  readonly insecure: boolean;
  /** How long the upstream may be silent. */
  readonly timeoutMs: number;
}
