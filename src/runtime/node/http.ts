/**
 * node:http without an import: that would read every export, and the getter of `WebSocket` loads Node's own fetch, which takes 11 MB and is
 * not used here.
 */
export const http = process.getBuiltinModule('node:http');
