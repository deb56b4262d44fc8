import type { GatewayReport, StoredKey } from '../../src/control/registry/database/key-repository.ts'
import { decodeMessage } from '../../src/domain/invalidation-message.ts'
import type { Lookup } from '../../src/domain/key/lookup.ts'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { agreementMs, type Settings } from './plan.ts'
import { RegionBounds } from './region-bounds.ts'
import { type GatewayRun, type Verdict, verdictOf } from './world/gateway-process.ts'
import type { Process } from './world/process.ts'
import type { DatabaseWatcher } from './world/repository.ts'

export type Law =
  | 'a change takes effect within its bound'
  | 'unknown is never no'
  | 'a confirmed gateway never goes back'
  | 'a usable key is refused only when no store can vouch for it'
  | 'a region that is down holds up no other'
  | 'everything agrees five seconds after the last fault'

export interface Violation {
  readonly law: Law
  readonly atMs: number
  readonly detail: string
}

export interface Decision {
  readonly gateway: GatewayRun
  readonly digest: string
  readonly beganMs: number
  readonly lookup: Lookup
}

interface InForce {
  readonly key: StoredKey
  readonly fromMs: number
}

const { connectedBoundMs, disconnectedBoundMs, disconnectedTrustMs } = REVOCATION_TIMING
/** Drift of two clocks, and what happens within a millisecond. */
const SLACK_MS = 20
/** The key service answers again, but a probe that began before has to fail first, and the circuit to close. */
const NOTICED_AFTER_MS = 2_000
/** The same over a long way, whose calls have twice the time. */
const NOTICED_FAR_MS = 3_000
/** All changes are announced to a region that is far, also those that overtake each other. */
const SETTLED_MS = 2_000

/** Compares what gateways decide with what the database held. */
export class Laws implements DatabaseWatcher {
  violation: Violation | null = null
  decisions = 0
  readonly #nowMs: () => number
  readonly #versions = new Map<string, InForce[]>()
  /** By gateway, then by digest. */
  readonly #confirmed = new Map<string, Map<string, number>>()
  readonly #received = new Map<Process, { readonly text: string; readonly atMs: number }[]>()
  readonly #senders = new Map<string, Process>()
  readonly #troubleUntilMs = new Map<string, number>()
  #allTroubleUntilMs = 0
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

  committed(key: StoredKey): void {
    const versions = this.#versions.get(key.digest) ?? []
    this.#lastCommitMs = this.#nowMs()
    versions.push({ key, fromMs: this.#lastCommitMs })
    this.#versions.set(key.digest, versions)
  }

  newest(digest: string): StoredKey | null {
    return this.#versions.get(digest)?.at(-1)?.key ?? null
  }

  reported({ id, confirmed }: GatewayReport): void {
    for (const { digest, version } of confirmed) this.applied(id, digest, version)
  }

  applied(gatewayId: string, digest: string, version: number): void {
    const ofGateway = this.#confirmed.get(gatewayId) ?? new Map<string, number>()
    ofGateway.set(digest, Math.max(version, ofGateway.get(digest) ?? 0))
    this.#confirmed.set(gatewayId, ofGateway)
  }

  sends(sender: string, console: Process): void {
    this.#senders.set(sender, console)
  }

  received(process: Process, text: string): void {
    const message = { text, atMs: this.#nowMs() }
    const messages = this.#received.get(process)
    if (messages === undefined) this.#received.set(process, [message])
    else messages.push(message)
  }

  /** The way from this gateway to an answer of the key service may fail until then. */
  trouble(gateway: string | null, untilMs: number): void {
    if (gateway === null) this.#allTroubleUntilMs = Math.max(this.#allTroubleUntilMs, untilMs)
    else this.#troubleUntilMs.set(gateway, Math.max(untilMs, this.#troubleUntilMs.get(gateway) ?? 0))
  }

  decided({ gateway, digest, beganMs, lookup }: Decision): void {
    this.decisions++
    if (this.violation !== null) return
    const atMs = this.#nowMs()
    const wallMs = gateway.process.clock.wallMs()
    const verdict = verdictOf(lookup, wallMs)
    if (lookup.kind === 'found') this.#checkConfirmed(gateway, digest, lookup.grant.version)
    if (this.#isUndisturbed(gateway)) this.#checkUndisturbed(gateway, digest, verdict, wallMs)
    if (verdict === 'unknown') {
      if (
        this.#isUsable(digest, beganMs, wallMs) &&
        gateway.keyServiceFailedAtMs < beganMs &&
        this.#answeredSince(gateway) < beganMs - this.#noticedAfterMs &&
        !this.#mayBeSuperseded(gateway)
      ) {
        this.#violated('a usable key is refused only when no store can vouch for it', gateway, 'unknown')
      }
      return
    }
    if (lookup.kind === 'found' && lookup.grant.version === this.newest(digest)?.record.version) return
    const sinceMs = atMs - this.regions.boundMs(gateway.region) - SLACK_MS
    if (this.#explains(digest, verdict, sinceMs, wallMs)) return
    if (this.#explains(digest, verdict, sinceMs - this.#leastDelayMs(gateway), wallMs)) return
    if (lookup.kind === 'absent') this.#violated('unknown is never no', gateway, digest.slice(0, 8))
    else if (!this.#isExcused(gateway, atMs)) {
      const law =
        verdict === 'permitted'
          ? 'a change takes effect within its bound'
          : 'a usable key is refused only when no store can vouch for it'
      const version = lookup.kind === 'found' ? lookup.grant.version : 0
      const tier = lookup.kind === 'found' ? lookup.tier : ''
      this.#violated(law, gateway, `${digest.slice(0, 8)} version ${version} from ${tier}: ${verdict}`)
    }
  }

  fail(law: Law, detail: string): void {
    this.violation ??= { law, atMs: this.#nowMs(), detail }
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

  #checkUndisturbed(gateway: GatewayRun, digest: string, verdict: Verdict, wallMs: number): void {
    const law = 'a region that is down holds up no other'
    // Changes of one key that overtake each other on a long way may pause heartbeats for a moment.
    const isSettled = this.#nowMs() - this.#lastCommitMs > SETTLED_MS
    if (isSettled && !gateway.isConnected()) this.#violated(law, gateway, 'nothing changed')
    const sinceMs = this.#nowMs() - connectedBoundMs - this.regions.distanceMs(gateway.region) - SLACK_MS
    if (verdict !== 'unknown' && !this.#explains(digest, verdict, sinceMs, wallMs))
      this.#violated(law, gateway, `${digest.slice(0, 8)} ${verdict}`)
  }

  #checkConfirmed(gateway: GatewayRun, digest: string, version: number): void {
    const confirmed = this.#confirmed.get(gateway.id)?.get(digest) ?? 0
    if (version >= confirmed) return
    const detail = `${digest.slice(0, 8)} version ${version} after ${confirmed}`
    this.#violated('a confirmed gateway never goes back', gateway, detail)
  }

  /** Whether a version that was in force since then gives this verdict. */
  #explains(digest: string, verdict: Verdict, sinceMs: number, wallMs: number): boolean {
    const versions = this.#versions.get(digest) ?? []
    const first = versions[0]
    if (verdict === 'key_invalid') return first === undefined || first.fromMs >= sinceMs
    return versions.some(({ key }, index) => {
      const next = versions[index + 1]
      if (next !== undefined && next.fromMs < sinceMs) return false
      return verdictOf({ kind: 'found', grant: key.record, tier: 'memory' }, wallMs) === verdict
    })
  }

  #isUsable(digest: string, atMs: number, wallMs: number): boolean {
    const held = this.#versions.get(digest)?.findLast(({ fromMs }) => fromMs <= atMs)
    if (held === undefined) return false
    return verdictOf({ kind: 'found', grant: held.key.record, tier: 'memory' }, wallMs) === 'permitted'
  }

  #answeredSince(gateway: GatewayRun): number {
    return Math.max(this.#allTroubleUntilMs, this.#troubleUntilMs.get(gateway.process.name) ?? 0)
  }

  /** While the key service does not answer, a gateway that is disconnected uses what Redis or memory has. */
  #isExcused(gateway: GatewayRun, atMs: number): boolean {
    if (atMs - gateway.keyServiceFailedAtMs > disconnectedTrustMs + SLACK_MS) return false
    return this.#answeredSince(gateway) + this.#noticedAfterMs + disconnectedBoundMs > atMs
  }

  /** A channel that is slow from the first heartbeat of a sender on looks like a clock that is behind. */
  #leastDelayMs({ process, region }: GatewayRun): number {
    const least = new Map<string, number>()
    for (const { text, atMs } of this.#received.get(process) ?? []) {
      const message = decodeMessage(text, null)
      const sender = message === null ? undefined : this.#senders.get(message.sender)
      if (message?.kind !== 'heartbeat' || sender === undefined) continue
      const delayMs = atMs - sender.trueTimeOf(message.monotonicMs ?? 0)
      least.set(message.sender, Math.min(delayMs, least.get(message.sender) ?? Number.POSITIVE_INFINITY))
    }
    return Math.max(0, ...least.values()) - this.regions.distanceMs(region)
  }

  #violated(law: Law, { process, isConnected }: GatewayRun, detail: string): void {
    this.fail(law, `${process.name} (${isConnected() ? 'connected' : 'disconnected'}): ${detail}`)
  }
}
