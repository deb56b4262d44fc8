/** How long a workspace below its share waits until another has to give up a connection for it. */
export const GRACE_MS = 100
/** Time without a further preemption after which half of the reserve is given back. */
const RESERVE_HALF_LIFE_MS = 10_000

interface QueueLimits {
  /** How many requests may wait. */
  readonly maxRequests: number
  /** How long each may wait. */
  readonly maxWaitMs: number
}

interface ConnectionLimits {
  readonly connections: number
  readonly queue: QueueLimits
}

/** A request that needs a connection. */
interface ConnectionRequest {
  readonly workspaceId: string
}

/** Connections and queue entries of one workspace. Removed when it has neither. */
interface Share<Request> {
  held: number
  /** Its waiting requests in order of arrival, each with its arrival time. Null until one waits. */
  waiting: Map<Request, number> | null
}

/** The waiting requests of a workspace, and its share. */
interface Queue<Request> {
  readonly share: Share<Request>
  readonly waiting: Map<Request, number>
}

const EMPTY_SHARE: Readonly<Share<never>> = { held: 0, waiting: null }

/**
 * Decides which request uses a connection and which waits: fair between workspaces, in order of arrival within one. It
 * only counts; the dispatcher connects and aborts.
 *
 * A free connection goes to the waiting workspace that holds the fewest. When the queue is full, the workspace with the
 * most waiting requests makes room for one with fewer. A workspace that waits below its share for `GRACE_MS` is owed a
 * connection of a workspace above its share; as many as were taken that way stay in reserve for a while, so that the
 * next request of a workspace below its share need not wait.
 */
export class ConnectionShares<Request extends ConnectionRequest> {
  readonly #limits: ConnectionLimits
  readonly #fairShare: number
  readonly #graceMs: number
  readonly #shares = new Map<string, Share<Request>>()
  /** The workspaces with waiting requests; the one served last is last. */
  readonly #waiting = new Map<string, Queue<Request>>()
  #held = 0
  #queued = 0
  #reserve = 0
  #reserveChangedAtMs = 0

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
    this.#fairShare = fairShare(limits.connections)
    this.#graceMs = Math.min(GRACE_MS, limits.queue.maxWaitMs / 2)
  }

  /** Requests that use a connection. */
  get held(): number {
    return this.#held
  }

  /** Requests that wait for a connection. */
  get queued(): number {
    return this.#queued
  }

  /** Workspaces that hold a connection or wait for one. */
  get workspaces(): number {
    return this.#shares.size
  }

  get isQueueFull(): boolean {
    return this.#queued >= this.#limits.queue.maxRequests
  }

  /** Whether a request of this workspace may use a connection now, before all waiting requests. */
  isFreeFor(workspaceId: string, nowMs: number): boolean {
    const { held, waiting } = this.#shares.get(workspaceId) ?? EMPTY_SHARE
    if (this.#queued > 0 && (held >= this.#fairShare || (waiting?.size ?? 0) > 0)) return false
    return this.#hasRoom(held, nowMs)
  }

  /** The request uses a connection from now on, until `release`. */
  hold({ workspaceId }: Request): void {
    this.#share(workspaceId).held += 1
    this.#held += 1
  }

  release({ workspaceId }: Request): void {
    const share = this.#share(workspaceId)
    share.held -= 1
    this.#held -= 1
    this.#forgetIfIdle(workspaceId, share)
  }

  /**
   * If the queue is full, selects the request that leaves it for one of this workspace: the newest of the workspace with
   * the most waiting requests. That workspace keeps at least as many as the other then has.
   * @returns undefined if the queue has room, or no request has to leave it
   */
  displacedFor(workspaceId: string): Request | undefined {
    if (!this.isQueueFull) return undefined
    const own = this.#waiting.get(workspaceId)?.waiting.size ?? 0
    let longest: Map<Request, number> | undefined
    for (const { waiting } of this.#waiting.values()) {
      if (waiting.size > Math.max(own + 1, longest?.size ?? 0)) longest = waiting
    }
    return [...(longest?.keys() ?? [])].at(-1)
  }

  enqueue(request: Request, nowMs: number): void {
    const { workspaceId } = request
    const share = this.#share(workspaceId)
    share.waiting ??= new Map()
    share.waiting.set(request, nowMs)
    this.#waiting.set(workspaceId, { share, waiting: share.waiting })
    this.#queued += 1
  }

  /** Removes a request from the queue. @returns whether it was waiting */
  withdraw(request: Request): boolean {
    const { workspaceId } = request
    const queue = this.#waiting.get(workspaceId)
    if (queue?.waiting.delete(request) !== true) return false
    this.#queued -= 1
    if (queue.waiting.size === 0) this.#waiting.delete(workspaceId)
    this.#forgetIfIdle(workspaceId, queue.share)
    return true
  }

  /** Gives a connection to the next waiting request. @returns undefined if none may have one */
  next(nowMs: number): Request | undefined {
    const neediest = this.#neediest()
    if (neediest === undefined) return undefined
    const [workspaceId, queue] = neediest
    const [request] = queue.waiting.keys()
    if (request === undefined || !this.#hasRoom(queue.share.held, nowMs)) return undefined
    this.hold(request)
    this.withdraw(request)
    if (this.#waiting.delete(workspaceId)) this.#waiting.set(workspaceId, queue)
    return request
  }

  /** Whether a workspace below its share has waited long enough that one above its share must give up a connection. */
  isOwed(nowMs: number): boolean {
    for (const { share, waiting } of this.#waiting.values()) {
      if (share.held >= this.#fairShare) continue
      const [sinceMs = nowMs] = waiting.values()
      if (nowMs - sinceMs >= this.#graceMs) return true
    }
    return false
  }

  /** Connections that a workspace holds above its share; 0 or less if it is not above. */
  measureExcess(workspaceId: string): number {
    return (this.#shares.get(workspaceId)?.held ?? 0) - this.#fairShare
  }

  /** Call when an exchange of a workspace above its share was preempted. */
  preempted(nowMs: number): void {
    this.#reserve = Math.min(this.#reserveAt(nowMs) + 1, this.#limits.connections - this.#fairShare)
    this.#reserveChangedAtMs = nowMs
  }

  /** All waiting requests, those of one workspace in order of arrival. */
  all(): Request[] {
    return [...this.#waiting.values()].flatMap(({ waiting }) => [...waiting.keys()])
  }

  /** Requests that have waited too long; they stay in the queue. */
  overdue(nowMs: number): Request[] {
    const late: Request[] = []
    for (const { waiting } of this.#waiting.values()) {
      for (const [request, sinceMs] of waiting) {
        if (nowMs - sinceMs < this.#limits.queue.maxWaitMs) break
        late.push(request)
      }
    }
    return late
  }

  /** The waiting workspace with the fewest connections; of several, the one served longest ago. */
  #neediest(): [string, Queue<Request>] | undefined {
    let neediest: [string, Queue<Request>] | undefined
    for (const entry of this.#waiting) {
      if (neediest === undefined || entry[1].share.held < neediest[1].share.held) neediest = entry
      if (neediest[1].share.held === 0) break
    }
    return neediest
  }

  /** @param held connections of the workspace; at its share or above it may not use the reserve */
  #hasRoom(held: number, nowMs: number): boolean {
    const reserve = this.#reserve === 0 || held < this.#fairShare ? 0 : this.#reserveAt(nowMs)
    return this.#held < this.#limits.connections - reserve
  }

  #reserveAt(nowMs: number): number {
    const halvings = Math.floor((nowMs - this.#reserveChangedAtMs) / RESERVE_HALF_LIFE_MS)
    return Math.floor(this.#reserve / 2 ** halvings)
  }

  #share(workspaceId: string): Share<Request> {
    let share = this.#shares.get(workspaceId)
    if (share === undefined) {
      share = { held: 0, waiting: null }
      this.#shares.set(workspaceId, share)
    }
    return share
  }

  #forgetIfIdle(workspaceId: string, { held, waiting }: Share<Request>): void {
    if (held === 0 && (waiting === null || waiting.size === 0)) this.#shares.delete(workspaceId)
  }
}

/**
 * How much of a shared resource one workspace may hold while others need it: a quarter, but at least one. While no other
 * workspace needs it, one workspace may hold all of it.
 */
export function fairShare(total: number): number {
  return Math.max(1, Math.floor(total / 4))
}

/** An exchange that may have to give up its connection for another workspace. */
export interface PreemptionCandidate {
  readonly workspaceId: string
  /** `discarding`: the client has its response, and the rest of the body is read and discarded. */
  readonly stage: 'waiting' | 'streaming' | 'discarding'
  /** How long its client has read nothing of the waiting data. */
  readonly stalledMs: number
  /** Monotonic. */
  readonly startedAtMs: number
}

/** Ranks the exchanges of one workspace: the one whose loss costs its client the least is preempted first. */
function preemptionRank({ stage, stalledMs }: PreemptionCandidate): number {
  if (stage === 'discarding') return 0
  if (stalledMs >= GRACE_MS) return 1
  // Before the response head the client gets a 503 with Retry-After; after it, only a closed connection.
  return stage === 'waiting' ? 2 : 3
}

function isPreferred(one: PreemptionCandidate, other: PreemptionCandidate): boolean {
  const rank = preemptionRank(one)
  if (rank !== preemptionRank(other)) return rank < preemptionRank(other)
  if (rank === 1 && one.stalledMs !== other.stalledMs) return one.stalledMs > other.stalledMs
  return one.startedAtMs > other.startedAtMs
}

/**
 * Selects the exchange that gives up its connection, from the workspace that is furthest above its share.
 * @param measureExcess connections that a workspace holds above its share; at 0 or less none of its exchanges is preempted
 */
export function selectForPreemption<Exchange extends PreemptionCandidate>(
  exchanges: Iterable<Exchange>,
  measureExcess: (workspaceId: string) => number,
): Exchange | undefined {
  let first: Exchange | undefined
  let most = 0
  for (const exchange of exchanges) {
    const excess = measureExcess(exchange.workspaceId)
    if (excess < most || excess <= 0) continue
    if (first === undefined || excess > most || isPreferred(exchange, first)) first = exchange
    most = excess
  }
  return first
}
