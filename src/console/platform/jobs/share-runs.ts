/**
 * Runs `work` for many callers: one run at a time, and the next one for all who called since it began, with the items of all.
 * @returns settles with a run that began after the call
 */
export function shareBatches<Item, Result>(
  work: (items: readonly Item[]) => Promise<Result>,
): (items: readonly Item[]) => Promise<Result> {
  let waiting: Item[] = []
  let next: Promise<Result> | null = null
  let last: Promise<unknown> = Promise.resolve()
  return items => {
    for (const item of items) waiting.push(item)
    next ??= last.then(() => {
      const batch = waiting
      waiting = []
      next = null
      const run = work(batch)
      last = run.catch(() => {})
      return run
    })
    return next
  }
}

/** The same for work that takes no items. */
export function shareRuns(work: () => Promise<void>): () => Promise<void> {
  const share = shareBatches<never, void>(work)
  return () => share([])
}
