import { setTimeout as pause } from 'node:timers/promises'

/** A request this long after the bound shows that the key stays rejected. */
export const BEYOND_MS = 200

export interface Watch {
  readonly send: () => Promise<{ readonly status: number; readonly sentAtMs: number }>
  /** From when the key must be rejected; infinite until its revocation is committed. */
  readonly endAtMs: () => number
  /** Until the next request. */
  readonly pauseMs: (seen: { readonly isRejected: boolean; readonly elapsedMs: number }) => number
}

/** Sends requests with a key from just before its revocation until after its bound. */
export async function watchKey({ send, endAtMs, pauseMs }: Watch): Promise<void> {
  const beganAtMs = Date.now()
  for (let isRejected = false; ; ) {
    const { status, sentAtMs } = await send()
    isRejected ||= status !== 200
    if (sentAtMs > endAtMs()) return
    const leftMs = endAtMs() + BEYOND_MS - Date.now()
    await pause(Math.max(1, Math.min(pauseMs({ isRejected, elapsedMs: Date.now() - beganAtMs }), leftMs)))
  }
}

/** Begins work on each item at a steady rate. @returns what the work returns, in the order of the items */
export function atRate<Item, Result>(
  items: readonly Item[],
  perSecond: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const startMs = performance.now()
  return Promise.all(
    items.map(async (item, index) => {
      await pause(Math.max(0, startMs + (index * 1000) / perSecond - performance.now()))
      return work(item)
    }),
  )
}
