/** What the listener needs of a request and its response. Those of node:http have it too, behind `toNodeHandler`. */

export interface ListenerRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly rawHeaders: string[];
  /** Whether its last byte has arrived. */
  readonly complete: boolean;
  /** The first listener of `data` starts the body. */
  on(event: 'data', listener: (bytes: Uint8Array) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  pause(): unknown;
  /** Without a listener of `data` the body is dropped. */
  resume(): unknown;
}

export interface ListenerResponse {
  readonly req: Pick<ListenerRequest, 'method'>;
  readonly shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  writeContinue(): void;
  /** @param flat name, value, name, value */
  writeHead(status: number, flat: string[]): { end(body?: Uint8Array | string): unknown };
  /** @param onWritten called when the kernel has the bytes */
  write(bytes: Uint8Array, onWritten: () => void): unknown;
  end(bytes?: Uint8Array | string, onWritten?: () => void): unknown;
}

export interface Exchange {
  readonly request: ListenerRequest;
  readonly response: ListenerResponse;
  readonly awaitsContinue: boolean;
  /** Called when the reply was written, or will not be: the next request may be read. */
  done?(): void;
}
