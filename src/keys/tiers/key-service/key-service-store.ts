import { type Clock, systemClock } from '../../../domain/clock.ts'
import { asError } from '../../../observability/trouble-log.ts'
import type { KeyTier, TierAnswer } from '../../key-store.ts'
import { isNotOffered, readBatch, readSingle } from './key-service-answers.ts'
import { KEY_SERVICE_CONNECTIONS, type KeyServiceClient, OversizedAnswer } from './key-service-client.ts'

/** Look-ups in one call. */
const MAX_BATCH = 256
/** Calls at a time. While they are under way look-ups gather: the slower the key service, the more of them go together. */
const MAX_CALLS = 4
/** How long a key service that has no call for many look-ups is asked for each key by itself. */
const SINGLY_MS = 300_000
const MAX_RECORD_BYTES = 16 * 1024
/** Also of a few: one record that has gone out of bounds must not take the others along. */
const MAX_BATCH_BYTES = MAX_BATCH * MAX_RECORD_BYTES

/** A look-up that waits, or is under way. */
interface Question {
  readonly digest: string
  readonly deadlineMs: number
  /** The first call decides; later ones are in vain. */
  readonly answer: (answer: TierAnswer) => void
}

/**
 * The authority. A lone look-up goes at once; those that come while others are under way go together, so that a replica
 * which trusts nothing any more asks with a few calls and not with one for each of its keys.
 */
export class KeyServiceStore implements KeyTier {
  readonly name = 'key_service'
  readonly #client: Pick<KeyServiceClient, 'ask'>
  readonly #timeoutMs: number
  readonly #clock: Clock
  #waiting = new Set<Question>()
  #calls = 0
  #scheduled = false
  #singlyUntilMs = Number.NEGATIVE_INFINITY

  constructor(client: Pick<KeyServiceClient, 'ask'>, settings: { timeoutMs: number; clock?: Clock }) {
    this.#client = client
    this.#timeoutMs = settings.timeoutMs
    this.#clock = settings.clock ?? systemClock
  }

  /** The deadline covers the waiting. */
  get(digest: string): Promise<TierAnswer> {
    const { promise, resolve } = Promise.withResolvers<TierAnswer>()
    const deadlineMs = this.#clock.monotonicMs() + this.#timeoutMs
    const question: Question = {
      digest,
      deadlineMs,
      answer: answer => {
        clearTimeout(timer)
        resolve(answer)
      },
    }
    const timer = setTimeout(() => this.#giveUp(question), this.#timeoutMs)
    this.#waiting.add(question)
    this.#schedule()
    return promise
  }

  #giveUp(question: Question): void {
    this.#waiting.delete(question)
    question.answer({ kind: 'failed', error: this.#lateness(), why: 'unreachable' })
  }

  #lateness(): Error {
    return new Error(`The key service did not answer within ${this.#timeoutMs} ms`)
  }

  /** After all requests that have come by now, so that those that came together go together. */
  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#send()
    })
  }

  #send(): void {
    const singly = this.#clock.monotonicMs() < this.#singlyUntilMs
    while (this.#waiting.size > 0 && this.#calls < (singly ? KEY_SERVICE_CONNECTIONS : MAX_CALLS)) {
      const questions = this.#take(singly ? 1 : MAX_BATCH)
      this.#calls++
      void this.#ask(questions).finally(() => {
        this.#calls--
        this.#send()
      })
    }
  }

  /** The oldest ones. */
  #take(count: number): Question[] {
    const questions: Question[] = []
    for (const question of this.#waiting) {
      if (questions.length === count) break
      questions.push(question)
      this.#waiting.delete(question)
    }
    return questions
  }

  /** Never rejects. */
  async #ask(questions: readonly Question[]): Promise<void> {
    const [first, ...more] = questions
    if (first === undefined) return
    // The youngest of them: whoever has waited longer gives up by itself.
    const remainingMs = (more.at(-1) ?? first).deadlineMs - this.#clock.monotonicMs()
    const deadline = new AbortController()
    // Not `AbortSignal.timeout`: its timer stays for the whole time, however soon the answer comes.
    const timer = setTimeout(() => deadline.abort(this.#lateness()), Math.max(1, Math.ceil(remainingMs)))
    try {
      if (more.length === 0) await this.#askOne(first, deadline.signal)
      else await this.#askMany(questions, deadline.signal)
    } catch (error) {
      const why = error instanceof OversizedAnswer ? 'unusable' : 'unreachable'
      const answer: TierAnswer = { kind: 'failed', error: asError(error), why }
      for (const question of questions) question.answer(answer)
    } finally {
      clearTimeout(timer)
    }
  }

  async #askOne({ digest, answer }: Question, signal: AbortSignal): Promise<void> {
    const request = { method: 'GET', path: `/keys/${digest}`, maxBytes: MAX_RECORD_BYTES } as const
    answer(readSingle(await this.#client.ask(request, signal), digest))
  }

  async #askMany(questions: readonly Question[], signal: AbortSignal): Promise<void> {
    const digests = [...new Set(questions.map(({ digest }) => digest))]
    const body = { digests }
    const request = { method: 'POST', path: '/lookups', body, maxBytes: MAX_BATCH_BYTES } as const
    const reply = await this.#client.ask(request, signal)
    if (isNotOffered(reply)) return this.#askSingly(questions)
    const answerTo = readBatch(reply)
    for (const { digest, answer } of questions) answer(answerTo(digest))
  }

  /** They have waited longest, and go first. Those that were given up meanwhile are not asked. */
  #askSingly(questions: readonly Question[]): void {
    const nowMs = this.#clock.monotonicMs()
    this.#singlyUntilMs = nowMs + SINGLY_MS
    this.#waiting = new Set([...questions.filter(({ deadlineMs }) => deadlineMs > nowMs), ...this.#waiting])
  }
}
