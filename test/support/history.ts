import type { Replica } from './redis-fleet.ts'

export interface Answer {
  readonly replica: number
  readonly digest: string
  readonly beganAtMs: number
  readonly verdict: string
}

const ASK_EVERY_MS = 4

/** Looks one key after the other up in every gateway, continuously, and records each verdict with its time. */
export class History {
  readonly answers: Answer[] = []
  readonly #timers: NodeJS.Timeout[] = []
  readonly #open = new Set<Promise<void>>()

  constructor(replicas: readonly Replica[], digests: readonly string[]) {
    for (const [index, replica] of replicas.entries()) {
      let turn = 0
      const askNext = () => {
        const digest = digests[turn++ % digests.length] ?? ''
        const asked = this.#send(replica, index, digest).finally(() => this.#open.delete(asked))
        this.#open.add(asked)
      }
      this.#timers.push(setInterval(askNext, ASK_EVERY_MS))
    }
  }

  async #send(replica: Replica, index: number, digest: string): Promise<void> {
    const beganAtMs = performance.now()
    const verdict = await replica.verdict(digest)
    this.answers.push({ replica: index, digest, beganAtMs, verdict })
  }

  async end(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await Promise.all(this.#open)
  }

  /** Lookups that began later than the bound after the revocation and still returned "good". */
  acceptedAfter(boundMs: number, revokedAtMs: ReadonlyMap<string, number>): Answer[] {
    return this.answers.filter(({ digest, beganAtMs, verdict }) => {
      const atMs = revokedAtMs.get(digest)
      return verdict === 'good' && atMs !== undefined && beganAtMs > atMs + boundMs
    })
  }

  /** The longest time for which a revoked key was accepted, in ms. */
  worstLagMs(revokedAtMs: ReadonlyMap<string, number>): number {
    const lags = this.answers.map(({ digest, beganAtMs, verdict }) =>
      verdict === 'good' ? beganAtMs - (revokedAtMs.get(digest) ?? Number.POSITIVE_INFINITY) : 0,
    )
    return lags.reduce((worst, lag) => Math.max(worst, lag), 0)
  }

  count(verdict: string): number {
    return this.answers.filter(answer => answer.verdict === verdict).length
  }
}
