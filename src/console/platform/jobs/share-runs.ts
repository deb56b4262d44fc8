/**
 * Runs `work` for many callers: one run at a time, and the next one for all who called since it began, with the items of all.
 * @param maxItems of one run; more wait for the one after it
 * @returns settles with a run that began after the call
 */
export function shareBatches<Item, Result>(
  work: (items: readonly Item[]) => Promise<Result>,
  maxItems = Number.POSITIVE_INFINITY,
): (items: readonly Item[]) => Promise<Result> {
  let next: { readonly items: Item[]; readonly result: Promise<Result> } | null = null
  let last: Promise<unknown> = Promise.resolve()
  return items => {
    if (next === null || next.items.length + items.length > maxItems) {
      const batch: Item[] = []
      const result = last.then(() => {
        if (next?.items === batch) next = null
        return work(batch)
      })
      last = result.catch(() => {})
      next = { items: batch, result }
    }
    for (const item of items) next.items.push(item)
    return next.result
  }
}

/** The same for work that takes no items. */
export function shareRuns(work: () => Promise<void>): () => Promise<void> {
  const share = shareBatches<never, void>(work)
  return () => share([])
}
