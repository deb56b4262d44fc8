import type { KeyTier, StoreName, TierResult } from '../../src/keys/tiers/key-store.ts'

export interface Asked {
  readonly digest: string
  /** Answers this one question; without an answer, with what the tier would have said when it was asked. */
  answer(answer?: TierResult): void
}

/** A tier that answers, fails or stalls on demand. */
export class ChaosTier implements KeyTier {
  readonly name: StoreName
  /** Stalled lookups, oldest first. */
  readonly waiting: Asked[] = []
  asked = 0
  #mode: 'answer' | 'fail' | 'throw' | 'stall' = 'answer'
  readonly #content: (digest: string) => TierResult

  constructor(name: StoreName, content: (digest: string) => TierResult) {
    this.name = name
    this.#content = content
  }

  answers(): void {
    this.#mode = 'answer'
  }

  fails(): void {
    this.#mode = 'fail'
  }

  /** Breaks the contract of a tier, which must not throw. */
  throws(): void {
    this.#mode = 'throw'
  }

  stalls(): void {
    this.#mode = 'stall'
  }

  async get(digest: string): Promise<TierResult> {
    this.asked++
    if (this.#mode === 'throw') throw new Error('This tier throws on purpose')
    if (this.#mode === 'fail') return outOfOrder()
    const content = this.#content(digest)
    if (this.#mode === 'answer') return content
    return await new Promise(resolve => {
      this.waiting.push({ digest, answer: answer => resolve(answer ?? content) })
    })
  }

  /** Lets the oldest question that waits be answered. */
  release(answer?: TierResult): void {
    const next = this.waiting.shift()
    if (next === undefined) throw new Error(`No lookup is pending in ${this.name}`)
    next.answer(answer)
  }
}

export function outOfOrder(): TierResult {
  return { kind: 'failed', error: new Error('Out of order'), why: 'unreachable' }
}
