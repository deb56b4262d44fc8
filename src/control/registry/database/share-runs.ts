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

/**
 * Reads for many callers: one statement at a time, and the next one for all who called since it began, since an older one may
 * not see a change that its caller knows.
 * @returns what was found of all callers' ids
 */
export function shareReads<Found>(
  read: (ids: readonly string[]) => Promise<ReadonlyMap<string, Found>>,
): (ids: readonly string[]) => Promise<ReadonlyMap<string, Found>> {
  let waiting = new Set<string>()
  let next: Promise<ReadonlyMap<string, Found>> | null = null
  let last: Promise<unknown> = Promise.resolve()
  return ids => {
    for (const id of ids) waiting.add(id)
    next ??= last.then(() => {
      const all = [...waiting]
      waiting = new Set()
      next = null
      const found = read(all)
      last = found.catch(() => {})
      return found
    })
    return next
  }
}
