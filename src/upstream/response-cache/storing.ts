import type { Clock } from '../../domain/clock.ts'
import type { ByteString } from '../../http/byte-string.ts'
import type { JudgeAnswer, UpstreamHeaders } from '../response-policy.ts'
import { type KeptAnswer, keep, refreshedHeaders } from './cached-response.ts'
import { type Freshness, freshnessOf } from './freshness.ts'
import type { AnswerCache } from './response-cache.ts'

/** Where an answer would be kept, and what is kept there now. */
export interface Place {
  readonly workspaceId: string
  readonly question: string
  readonly stale: KeptAnswer | undefined
}

/** What becomes of one answer of the upstream beyond those who wait for it. */
export class Keeping {
  readonly #cache: AnswerCache
  readonly #clock: Clock
  readonly #place: Place
  readonly #askedAtMs: number
  readonly #epoch: number

  constructor(cache: AnswerCache, clock: Clock, place: Place) {
    this.#cache = cache
    this.#clock = clock
    this.#place = place
    this.#askedAtMs = clock.monotonicMs()
    this.#epoch = cache.epoch
  }

  /** @returns null where it may not be kept: then what was kept before is no longer the answer, either */
  freshnessOf(statusCode: number, headers: UpstreamHeaders): Freshness | null {
    const freshness = statusCode === 200 ? this.#judge(headers) : null
    // That the upstream has failed, or that a caller has the answer, says nothing of what is kept.
    if (freshness === null && statusCode < 500 && statusCode !== 304) this.#drop()
    return freshness
  }

  keep(
    upstream: UpstreamHeaders,
    passing: Readonly<Record<string, string>>,
    body: Buffer | ByteString,
    freshness: Freshness,
  ): KeptAnswer {
    const nowMs = this.#clock.monotonicMs()
    const answer = keep({ upstream, passing, body, freshness, askedAtMs: this.#askedAtMs, nowMs })
    const { workspaceId, question } = this.#place
    // What was asked for later is newer, whichever comes first.
    const newer = (this.#cache.find(workspaceId, question)?.askedAtMs ?? 0) > this.#askedAtMs
    if (!newer && this.#epoch === this.#cache.epoch) this.#cache.store(workspaceId, question, answer)
    return answer
  }

  /** After a 304. @returns null where it cannot be told of what: nothing is kept then */
  refresh(unchanged: UpstreamHeaders, judge: JudgeAnswer): KeptAnswer | null {
    const { stale } = this.#place
    const headers = stale === undefined ? null : refreshedHeaders(stale.upstream, unchanged)
    const freshness = headers === null ? null : this.#judge(headers)
    const judgement = headers === null ? null : judge(200, headers)
    if (stale === undefined || headers === null || freshness === null || judgement?.kind !== 'pass') {
      this.#drop()
      return null
    }
    return this.keep(headers, judgement.headers, stale.body, freshness)
  }

  get revalidates(): boolean {
    return this.#place.stale !== undefined
  }

  #judge(headers: UpstreamHeaders): Freshness | null {
    const nowMs = this.#clock.monotonicMs()
    return freshnessOf(headers, { askedAtMs: this.#askedAtMs, nowMs, wallMs: this.#clock.wallMs() })
  }

  #drop(): void {
    this.#cache.drop(this.#place.workspaceId, this.#place.question)
  }
}
