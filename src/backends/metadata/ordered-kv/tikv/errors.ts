/** The failures of this client's calls. */

export class TikvError extends Error {}

/** No server answered in time. The outcome of the last attempt is unknown. */
export class Unreachable extends TikvError {}

/** A transaction met another one: nothing of it was applied, and it may be tried again as a whole. */
export class Conflict extends TikvError {}

/** Whether the transaction was applied is unknown: its commit was sent and not answered. */
export class Undetermined extends TikvError {}
