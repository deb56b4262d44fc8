interface Event {
  readonly atMs: number
  readonly order: number
  /** Null once cancelled. */
  run: (() => void) | null
}

/** Events between two visits to the operating system. */
const EVENTS_A_TURN = 256

/**
 * Virtual time. Events run one after another in the order of their times; between two of them every promise that can
 * settle does, because each has a callback of `setImmediate` of its own.
 */
export class Scheduler {
  nowMs = 0
  /** Events that have run. */
  count = 0
  #order = 0
  readonly #heap: Event[] = []

  /** @returns cancels it */
  at(atMs: number, run: () => void): () => void {
    const event: Event = { atMs: atMs > this.nowMs ? atMs : this.nowMs, order: this.#order++, run }
    this.#push(event)
    return () => {
      event.run = null
    }
  }

  /** Runs everything until then. */
  run(untilMs: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let isDone = false
    let left = 0
    const step = (): void => {
      left--
      if (isDone) return
      try {
        isDone = !this.#runNext(untilMs)
      } catch (error) {
        isDone = true
        reject(error)
      }
      if (isDone) resolve()
      else if (left === 0) fill()
    }
    const fill = (): void => {
      left = EVENTS_A_TURN
      for (let i = 0; i < EVENTS_A_TURN; i++) setImmediate(step)
    }
    fill()
    return promise
  }

  /** @returns false if nothing is due until then */
  #runNext(untilMs: number): boolean {
    for (;;) {
      const first = this.#heap[0]
      if (first === undefined || first.atMs > untilMs) {
        this.nowMs = untilMs
        return false
      }
      this.#pop()
      if (first.run === null) continue
      this.nowMs = first.atMs
      this.count++
      first.run()
      return true
    }
  }

  #push(event: Event): void {
    const heap = this.#heap
    let index = heap.length
    heap.push(event)
    while (index > 0) {
      const parentIndex = (index - 1) >> 1
      const parent = heap[parentIndex]
      if (parent === undefined || isBefore(parent, event)) break
      heap[index] = parent
      index = parentIndex
    }
    heap[index] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let index = 0
    for (;;) {
      let childIndex = 2 * index + 1
      let child = heap[childIndex]
      if (child === undefined) break
      const other = heap[childIndex + 1]
      if (other !== undefined && isBefore(other, child)) {
        childIndex++
        child = other
      }
      if (isBefore(last, child)) break
      heap[index] = child
      index = childIndex
    }
    heap[index] = last
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
}
