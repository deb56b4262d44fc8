import { type Answer, answerTo, type ClientRequest, type KeyFacts, PROMISE, wrongChange } from './oracle.ts'
import { agreementMs, type Settings } from './plan.ts'
import { RegionBounds } from './region-bounds.ts'
import type { GatewayRun } from './world/gateway-process.ts'
import type { Process } from './world/process.ts'
import type { CommittedKey, DatabaseWatcher } from './world/repository.ts'

export type Law =
  | 'a change takes effect within its bound'
  | 'unknown is never no'
  | 'a confirmed gateway never goes back'
  | 'a usable key is refused only when no store can vouch for it'
  | 'a region that is down holds up no other'
  | 'everything agrees five seconds after the last fault'
  | 'a change builds on the one before it, and what was answered is done'
  | 'nothing is used for longer than its life'
  | 'nothing is granted that was never granted'

export interface Violation {
  readonly law: Law
  readonly atMs: number
  readonly detail: string
}

export interface Decision {
  readonly gateway: GatewayRun
  readonly digest: string
  readonly request: ClientRequest
  readonly beganMs: number
  readonly answer: Answer
  /** Of the record by which the gateway decided; 0 without one. */
  readonly version: number
}

interface InForce {
  readonly facts: KeyFacts
  readonly fromMs: number
}

/** Drift of two clocks, and what happens within a millisecond. */
const SLACK_MS = 20
/** The key service answers again, but a probe that began before has to fail first, and the circuit to close. */
const NOTICED_AFTER_MS = 2_000
/** The same over a long way, whose calls have twice the time. */
const NOTICED_FAR_MS = 3_000
/** All changes are announced to a region that is far, also those that overtake each other. */
const SETTLED_MS = 2_000
/** An answer that there is no such key is used for this long, as `world.ts` sets it. */
export const ABSENT_TTL_MS = 5_000

const { connectedBoundMs, disconnectedBoundMs, silenceMs, disconnectedTrustMs } = PROMISE

/** Compares what gateways decide with what the database held, by the model of `oracle.ts`. */
export class Laws implements Omit<DatabaseWatcher, 'claimed'> {
  violation: Violation | null = null
  decisions = 0
  readonly #nowMs: () => number
  readonly #versions = new Map<string, InForce[]>()
  /** By gateway, then by digest. */
  readonly #confirmed = new Map<string, Map<string, number>>()
  readonly #heartbeats = new Map<Process, { readonly text: string; readonly atMs: number }[]>()
  /** When an answer of a store about a key last arrived at a gateway. */
  readonly #verified = new Map<Process, Map<string, number>>()
  readonly #copies = new Set<string>()
  readonly #senders = new Map<string, Process>()
  readonly #troubleUntilMs = new Map<string, number>()
  #allTroubleUntilMs = 0
  #laggingUntilMs = Number.NEGATIVE_INFINITY
  #lastCommitMs = 0

  readonly regions: RegionBounds
  /** If the schedule is quiet, the region that faults hit. */
  troubledRegion = -1
  readonly #settings: Settings
  readonly #noticedAfterMs: number

  constructor(nowMs: () => number, settings: Settings) {
    this.#nowMs = nowMs
    this.#settings = settings
    this.regions = new RegionBounds(nowMs, settings)
    this.#noticedAfterMs = settings.distancesMs.length > 1 ? NOTICED_FAR_MS : NOTICED_AFTER_MS
  }

  committed({ digest, record }: CommittedKey): void {
    const versions = this.#versions.get(digest) ?? []
    this.#lastCommitMs = this.#nowMs()
    const facts: KeyFacts = {
      version: record.version,
      workspaceId: record.workspaceId,
      scopes: record.scopes,
      networks: record.allowedCidrs,
      expiresAtMs: record.expiresAtMs,
      isRevoked: record.revokedAtMs !== null,
      isSuspended: record.suspendedAtMs !== null,
    }
    const wrong = wrongChange(versions.at(-1)?.facts ?? null, facts)
    if (wrong !== null) this.fail(CHANGES, `${digest.slice(0, 8)} ${wrong}`)
    versions.push({ facts, fromMs: this.#lastCommitMs })
    this.#versions.set(digest, versions)
  }

  /** Of keys that exist. */
  get digests(): readonly string[] {
    return [...this.#versions.keys()]
  }

  newest(digest: string): KeyFacts | null {
    return this.#versions.get(digest)?.at(-1)?.facts ?? null
  }

  /** An operation was answered with success. @param isDone of a version in force since the operation began */
  answered(operation: string, digest: string, sinceMs: number, isDone: (facts: KeyFacts) => boolean): void {
    const versions = this.#versions.get(digest) ?? []
    const isInForce = (index: number): boolean =>
      (versions[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY) >= sinceMs
    if (!versions.some(({ facts }, index) => isInForce(index) && isDone(facts)))
      this.fail(CHANGES, `${operation} of ${digest.slice(0, 8)} is answered and not done`)
  }

  applied(gatewayId: string, digest: string, version: number): void {
    const ofGateway = this.#confirmed.get(gatewayId) ?? new Map<string, number>()
    ofGateway.set(digest, Math.max(version, ofGateway.get(digest) ?? 0))
    this.#confirmed.set(gatewayId, ofGateway)
  }

  reported({ id, confirmed }: Parameters<DatabaseWatcher['reported']>[0]): void {
    for (const { digest, version } of confirmed) this.applied(id, digest, version)
  }

  sends(sender: string, console: Process): void {
    this.#senders.set(sender, console)
  }

  /** A message of the channel has arrived. */
  received(process: Process, text: string): void {
    if (text.includes('"digest"')) return
    const heartbeat = { text, atMs: this.#nowMs() }
    const heartbeats = this.#heartbeats.get(process)
    if (heartbeats === undefined) this.#heartbeats.set(process, [heartbeat])
    else heartbeats.push(heartbeat)
  }

  /** An attacker publishes it again: how late it is says nothing about the channel. */
  copied(text: string): void {
    this.#copies.add(text)
  }

  /** An answer of a store about this key has arrived. */
  verified(process: Process, digest: string): void {
    const ofGateway = this.#verified.get(process) ?? new Map<string, number>()
    ofGateway.set(digest, this.#nowMs())
    this.#verified.set(process, ofGateway)
  }

  /** The way from this gateway to an answer of the key service may fail until then. */
  trouble(gateway: string | null, untilMs: number): void {
    if (gateway === null) this.#allTroubleUntilMs = Math.max(this.#allTroubleUntilMs, untilMs)
    else this.#troubleUntilMs.set(gateway, Math.max(untilMs, this.#troubleUntilMs.get(gateway) ?? 0))
  }

  /** The key service answers by an old state until then. */
  lagging(untilMs: number): void {
    this.trouble(null, untilMs)
    this.#laggingUntilMs = Math.max(this.#laggingUntilMs, untilMs)
  }

  decided(decision: Decision): void {
    this.decisions++
    if (this.violation !== null) return
    const { gateway, answer } = decision
    const wallMs = gateway.process.clock.wallMs()
    if (this.#isUndisturbed(gateway)) this.#checkUndisturbed(decision, wallMs)
    if (answer === 'key_store_unavailable') {
      this.#checkUnavailable(decision, wallMs)
      return
    }
    this.#checkConfirmed(decision)
    this.#checkLife(decision)
    this.#checkBound(decision, wallMs)
  }

  fail(law: Law, detail: string): void {
    this.violation ??= { law, atMs: this.#nowMs(), detail }
  }

  #checkUnavailable({ gateway, digest, request, beganMs }: Decision, wallMs: number): void {
    if (
      this.#isUsable(digest, request, beganMs, wallMs) &&
      gateway.keyServiceFailedAtMs < beganMs &&
      this.#answeredSince(gateway) < beganMs - this.#noticedAfterMs &&
      !this.#mayBeSuperseded(gateway)
    ) {
      this.#violated('a usable key is refused only when no store can vouch for it', gateway, 'unknown')
    }
  }

  #checkBound({ gateway, digest, request, answer, version }: Decision, wallMs: number): void {
    const sinceMs = this.#nowMs() - this.regions.boundMs(gateway.region) - SLACK_MS
    const explains = (fromMs: number): boolean => this.#explains({ digest, request, answer }, fromMs, wallMs)
    if (explains(sinceMs) || explains(sinceMs - this.#leastDelayMs(gateway))) return
    const detail = `${digest.slice(0, 8)} version ${version}: ${answer}`
    if (!explains(Number.NEGATIVE_INFINITY))
      this.#violated('nothing is granted that was never granted', gateway, detail)
    else if (this.#isLagging() || this.#isDeceived(gateway)) return
    else if (answer === 'key_invalid') this.#violated('unknown is never no', gateway, detail)
    else if (!this.#isExcused(gateway)) {
      const law =
        answer === 'permitted'
          ? 'a change takes effect within its bound'
          : 'a usable key is refused only when no store can vouch for it'
      this.#violated(law, gateway, detail)
    }
  }

  /** No fault has hit its region, the consoles or the database. To start takes no longer than to recover. */
  #isUndisturbed({ region, startedAtMs }: GatewayRun): boolean {
    const isStarted = this.#nowMs() - startedAtMs > agreementMs(this.#settings)
    return this.#settings.isQuiet && region !== this.troubledRegion && isStarted
  }

  /** Over a long way, changes that follow each other may supersede all three lookups of a request. */
  #mayBeSuperseded({ region }: GatewayRun): boolean {
    return this.regions.isFar(region) && this.#nowMs() - this.#lastCommitMs < SETTLED_MS
  }

  #checkUndisturbed({ gateway, digest, request, answer }: Decision, wallMs: number): void {
    const law = 'a region that is down holds up no other'
    // Changes of one key that overtake each other on a long way may pause heartbeats for a moment.
    const isSettled = this.#nowMs() - this.#lastCommitMs > SETTLED_MS
    if (isSettled && !gateway.isConnected()) this.#violated(law, gateway, 'nothing changed')
    const sinceMs = this.#nowMs() - connectedBoundMs - this.regions.distanceMs(gateway.region) - SLACK_MS
    const isUnavailable = answer === 'key_store_unavailable'
    if (!isUnavailable && !this.#explains({ digest, request, answer }, sinceMs, wallMs))
      this.#violated(law, gateway, `${digest.slice(0, 8)} ${answer}`)
  }

  /** An answer that there is no such key goes back behind every version. */
  #checkConfirmed({ gateway, digest, version }: Decision): void {
    const confirmed = this.#confirmed.get(gateway.id)?.get(digest) ?? 0
    // A floor that was evicted is promised only while the stores are right.
    const mayForget = this.#settings.floors === 1 && (this.#isExcused(gateway) || this.#isLagging())
    if (version >= confirmed || mayForget) return
    const detail = `${digest.slice(0, 8)} version ${version} after ${confirmed}`
    this.#violated('a confirmed gateway never goes back', gateway, detail)
  }

  /** From the last answer of a store, however often it was used since. */
  #checkLife({ gateway, digest, answer }: Decision): void {
    const verifiedMs = this.#verified.get(gateway.process)?.get(digest) ?? Number.NEGATIVE_INFINITY
    const { ttlMs, staleMs } = this.#settings
    const connectedMs = answer === 'key_invalid' ? ABSENT_TTL_MS : ttlMs
    const freshMs = this.#isSilent(gateway) ? disconnectedTrustMs : connectedMs
    const isStaleUsed = answer !== 'key_invalid' && this.#isExcused(gateway)
    const lifeMs = isStaleUsed ? Math.max(freshMs, staleMs) : freshMs
    const ageMs = this.#nowMs() - verifiedMs
    if (ageMs > lifeMs + SLACK_MS) {
      const detail = `${digest.slice(0, 8)} ${answer} ${ageMs.toFixed(0)} ms after it was verified`
      this.#violated('nothing is used for longer than its life', gateway, detail)
    }
  }

  /** No heartbeat has arrived, valid or not. */
  #isSilent({ process }: GatewayRun): boolean {
    const lastMs = this.#heartbeats.get(process)?.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY
    return this.#nowMs() - lastMs > silenceMs + SLACK_MS
  }

  /** Whether a version that was in force since then gives this answer. */
  #explains(
    { digest, request, answer }: Pick<Decision, 'digest' | 'request' | 'answer'>,
    sinceMs: number,
    wallMs: number,
  ): boolean {
    const versions = this.#versions.get(digest) ?? []
    if (answer === 'key_invalid') return (versions[0]?.fromMs ?? Number.POSITIVE_INFINITY) >= sinceMs
    for (let index = versions.length - 1; index >= 0; index--) {
      const version = versions[index]
      if (version === undefined || (versions[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY) < sinceMs) break
      if (answerTo(version.facts, request, wallMs) === answer) return true
    }
    return false
  }

  #isUsable(digest: string, request: ClientRequest, atMs: number, wallMs: number): boolean {
    const held = this.#versions.get(digest)?.findLast(({ fromMs }) => fromMs <= atMs)
    return held !== undefined && answerTo(held.facts, request, wallMs) === 'permitted'
  }

  #answeredSince(gateway: GatewayRun): number {
    return Math.max(this.#allTroubleUntilMs, this.#troubleUntilMs.get(gateway.process.name) ?? 0)
  }

  /** As SECURITY.md says: recorded heartbeats connect a gateway that has just started, until the key service answers its first report. */
  #isDeceived({ process, clockKnownAtMs }: GatewayRun): boolean {
    if (this.#nowMs() > clockKnownAtMs + disconnectedBoundMs) return false
    return this.#heartbeats.get(process)?.some(({ text }) => this.#copies.has(text)) === true
  }

  /** While the key service does not answer, a gateway that is disconnected uses what Redis or memory has. */
  #isExcused(gateway: GatewayRun): boolean {
    const atMs = this.#nowMs()
    if (atMs - gateway.keyServiceFailedAtMs > disconnectedTrustMs + SLACK_MS) return false
    return this.#answeredSince(gateway) + this.#noticedAfterMs + disconnectedBoundMs > atMs
  }

  /** A gateway that has not received a change uses the answer of a key service that lags for the life of a record. */
  #isLagging(): boolean {
    const usedMs = Math.max(this.#settings.ttlMs, ABSENT_TTL_MS)
    return this.#nowMs() < this.#laggingUntilMs + usedMs + disconnectedBoundMs
  }

  /** A channel that is slow from the first heartbeat of a sender on looks like a clock that is behind. */
  #leastDelayMs({ process, region }: GatewayRun): number {
    const least = new Map<string, number>()
    for (const { text, atMs } of this.#heartbeats.get(process) ?? []) {
      if (this.#copies.has(text)) continue
      const { sender, monotonicMs } = readHeartbeat(text)
      const delayMs = atMs - (this.#senders.get(sender)?.trueTimeOf(monotonicMs) ?? Number.NEGATIVE_INFINITY)
      least.set(sender, Math.min(delayMs, least.get(sender) ?? Number.POSITIVE_INFINITY))
    }
    const delaysMs = [...least.values()].filter(Number.isFinite)
    return Math.max(0, ...delaysMs) - this.regions.distanceMs(region)
  }

  #violated(law: Law, { process, isConnected }: GatewayRun, detail: string): void {
    this.fail(law, `${process.name} (${isConnected() ? 'connected' : 'disconnected'}): ${detail}`)
  }
}

const CHANGES: Law = 'a change builds on the one before it, and what was answered is done'

/** The first two fields: the sender and its monotonic clock. */
function readHeartbeat(text: string): { readonly sender: string; readonly monotonicMs: number } {
  const [sender, monotonic] = Object.values(JSON.parse(text))
  return { sender: String(sender), monotonicMs: Number(monotonic) }
}
