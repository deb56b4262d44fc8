/** Where an event happens: later while it is frozen, never once it has ended. */
export interface Host {
  readonly isAlive: boolean
  readonly frozenUntilMs: number
}

/** Something that happens at one moment. */
export interface Event {
  atMs: number
  order: number
  /** Null once cancelled. */
  run: (() => void) | null
  readonly host: Host
  /** Promises may settle by it, so that they continue before the next event. */
  readonly settles: boolean
}

/** Events between two visits to the operating system. */
const EVENTS_A_TURN = 256
/** What belongs to no process. */
const WORLD: Host = { isAlive: true, frozenUntilMs: 0 }

/**
 * Virtual time. Events run one after another in the order of their times; between two of them every promise that can
 * settle does, because each has a callback of `setImmediate` of its own. After an event that settles none, the next follows at once.
 */
export class Scheduler {
  nowMs = 0
  /** Events that have run. */
  count = 0
  #order = 0
  #mustSettle = false
  #holds = 0
  readonly #heap: Event[] = []

  at(atMs: number, run: () => void, host: Host = WORLD): Event {
    return this.#add(atMs, run, host, true)
  }

  /** For what settles no promise, such as a command that is executed at a server; or says so by `settle`. */
  atServer(atMs: number, run: () => void): void {
    this.#add(atMs, run, WORLD, false)
  }

  /** Called within an event of `atServer`: promises may continue after it. */
  settle(): void {
    this.#mustSettle = true
  }

  /** No event runs before this has settled: real work, which takes no virtual time. */
  hold(work: Promise<void>): void {
    this.#holds++
    void work.finally(() => {
      this.#holds--
    })
    this.settle()
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
        isDone = this.#holds === 0 && !this.#runNext(untilMs)
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

  /** Up to the next event by which promises may settle. @returns false if nothing is due until then */
  #runNext(untilMs: number): boolean {
    this.#mustSettle = false
    for (;;) {
      const first = this.#heap[0]
      if (first === undefined || first.atMs > untilMs) {
        this.nowMs = untilMs
        return false
      }
      this.#pop()
      const { run, host } = first
      if (run === null || !host.isAlive) continue
      this.nowMs = first.atMs
      if (host.frozenUntilMs > this.nowMs) {
        first.atMs = host.frozenUntilMs
        first.order = this.#order++
        this.#push(first)
        continue
      }
      this.count++
      run()
      if (first.settles || this.#mustSettle) return true
    }
  }

  #add(atMs: number, run: () => void, host: Host, settles: boolean): Event {
    const event = { atMs: atMs > this.nowMs ? atMs : this.nowMs, order: this.#order++, run, host, settles }
    this.#push(event)
    return event
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
