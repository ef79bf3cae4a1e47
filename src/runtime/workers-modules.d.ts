/** What is used of the modules that workerd has. */
declare module 'cloudflare:workers' {
  export class DurableObject<Env = unknown> {
    protected readonly ctx: unknown;
    protected readonly env: Env;
    constructor(ctx: unknown, env: Env);
  }
  /** Keeps the present request alive until the promise has settled. */
  export function waitUntil(promise: Promise<unknown>): void;
}
