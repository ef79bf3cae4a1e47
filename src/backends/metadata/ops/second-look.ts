/**
 * How long after its settlement an abandoned intent is returned once more. A process that was only stopped continues to store bytes when
 * it resumes, and learns of the sweep at its commit. If it dies before it has queued those bytes, this second look finds them. Longer
 * than any upload that was under way.
 */
export const secondLookMs = 24 * 60 * 60_000;
