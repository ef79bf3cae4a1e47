/** The gateway on Node: sockets go straight to `gateway.handle`, no Request or Response object is made. */

// First, because other modules stop an old runtime with a stack trace.
import '../base/assert-runtime.ts';

export { type Composed, type ComposeOptions, compose } from './compose/compose.ts';
export {
  type NodeHandler,
  type NodeHandlerOptions,
  type ServeOptions,
  type Serving,
  serve,
  toNodeHandler,
} from './node/node-server.ts';
export { routeHandler } from './node/route-handler.ts';
