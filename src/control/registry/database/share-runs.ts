/**
 * Runs `work` for many callers: one run at a time, and the next one for all who called since it began.
 * @returns settles with a run that began after the call
 */
export function shareRuns(work: () => Promise<void>): () => Promise<void> {
  let next: Promise<void> | null = null
  let last: Promise<void> = Promise.resolve()
  return () => {
    next ??= last.then(() => {
      next = null
      const run = work()
      last = run.catch(() => {})
      return run
    })
    return next
  }
}
