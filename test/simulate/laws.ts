import type { GatewayReport, StoredKey } from '../../src/control/registry/database/key-repository.ts'
import { decodeMessage } from '../../src/domain/invalidation-message.ts'
import type { Lookup } from '../../src/domain/key/lookup.ts'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { type GatewayRun, type Verdict, verdictOf } from './world/gateway-process.ts'
import type { Process } from './world/process.ts'
import type { DatabaseWatcher } from './world/repository.ts'

export type Law =
  | 'a change takes effect within its bound'
  | 'unknown is never no'
  | 'a confirmed gateway never goes back'
  | 'a usable key is refused only when no store can vouch for it'
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

const { disconnectedBoundMs, disconnectedTrustMs } = REVOCATION_TIMING
/** Drift of two clocks, and what happens within a millisecond. */
const SLACK_MS = 20
/** The key service answers again, but a probe that began before has to fail first, and the circuit to close. */
const NOTICED_AFTER_MS = 2_000

/** Compares what gateways decide with what the database held. */
export class Laws implements DatabaseWatcher {
  violation: Violation | null = null
  decisions = 0
  readonly #nowMs: () => number
  readonly #versions = new Map<string, InForce[]>()
  readonly #confirmed = new Map<string, number>()
  readonly #received = new Map<Process, { readonly text: string; readonly atMs: number }[]>()
  readonly #senders = new Map<string, Process>()
  readonly #troubleUntilMs = new Map<string, number>()
  #allTroubleUntilMs = 0

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  committed(key: StoredKey): void {
    const versions = this.#versions.get(key.digest) ?? []
    versions.push({ key, fromMs: this.#nowMs() })
    this.#versions.set(key.digest, versions)
  }

  newest(digest: string): StoredKey | null {
    return this.#versions.get(digest)?.at(-1)?.key ?? null
  }

  reported({ id, confirmed }: GatewayReport): void {
    for (const { digest, version } of confirmed) this.applied(id, digest, version)
  }

  applied(gatewayId: string, digest: string, version: number): void {
    const key = `${gatewayId} ${digest}`
    this.#confirmed.set(key, Math.max(version, this.#confirmed.get(key) ?? 0))
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
    if (verdict === 'unknown') {
      if (
        this.#isUsable(digest, beganMs, wallMs) &&
        gateway.keyServiceFailedAtMs < beganMs &&
        this.#answeredSince(gateway) < beganMs - NOTICED_AFTER_MS
      ) {
        this.#violated('a usable key is refused only when no store can vouch for it', gateway, 'unknown')
      }
      return
    }
    const sinceMs = atMs - disconnectedBoundMs - SLACK_MS
    if (this.#explains(digest, verdict, sinceMs, wallMs)) return
    if (this.#explains(digest, verdict, sinceMs - this.#leastDelayMs(gateway.process), wallMs)) return
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

  #checkConfirmed(gateway: GatewayRun, digest: string, version: number): void {
    const confirmed = this.#confirmed.get(`${gateway.id} ${digest}`) ?? 0
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
    return this.#answeredSince(gateway) + NOTICED_AFTER_MS + disconnectedBoundMs > atMs
  }

  /** A channel that is slow from the first heartbeat of a sender on looks like a clock that is behind. */
  #leastDelayMs(process: Process): number {
    const least = new Map<string, number>()
    for (const { text, atMs } of this.#received.get(process) ?? []) {
      const message = decodeMessage(text, null)
      const sender = message === null ? undefined : this.#senders.get(message.sender)
      if (message?.kind !== 'heartbeat' || sender === undefined) continue
      const delayMs = atMs - sender.trueTimeOf(message.monotonicMs ?? 0)
      least.set(message.sender, Math.min(delayMs, least.get(message.sender) ?? Number.POSITIVE_INFINITY))
    }
    return Math.max(0, ...least.values())
  }

  #violated(law: Law, { process, isConnected }: GatewayRun, detail: string): void {
    this.fail(law, `${process.name} (${isConnected() ? 'connected' : 'disconnected'}): ${detail}`)
  }
}
