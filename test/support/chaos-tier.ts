import type { KeyTier, StoreName, TierAnswer } from '../../src/keys/key-store.ts'

export interface Asked {
  readonly digest: string
  /** Answers this one question; without an answer, with what the tier would have said when it was asked. */
  answer(answer?: TierAnswer): void
}

/** A tier that answers, fails or stalls on demand. */
export class ChaosTier implements KeyTier {
  readonly name: StoreName
  /** Questions that wait, oldest first. */
  readonly waiting: Asked[] = []
  asked = 0
  #mode: 'answer' | 'fail' | 'throw' | 'stall' = 'answer'
  readonly #content: (digest: string) => TierAnswer

  constructor(name: StoreName, content: (digest: string) => TierAnswer) {
    this.name = name
    this.#content = content
  }

  answers(): void {
    this.#mode = 'answer'
  }

  fails(): void {
    this.#mode = 'fail'
  }

  /** What no tier should do. */
  throws(): void {
    this.#mode = 'throw'
  }

  stalls(): void {
    this.#mode = 'stall'
  }

  async get(digest: string): Promise<TierAnswer> {
    this.asked++
    if (this.#mode === 'throw') throw new Error('A tier that breaks its word')
    if (this.#mode === 'fail') return outOfOrder()
    const content = this.#content(digest)
    if (this.#mode === 'answer') return content
    return await new Promise(resolve => {
      this.waiting.push({ digest, answer: answer => resolve(answer ?? content) })
    })
  }

  /** Lets the oldest question that waits be answered. */
  release(answer?: TierAnswer): void {
    const next = this.waiting.shift()
    if (next === undefined) throw new Error(`Nobody waits for ${this.name}`)
    next.answer(answer)
  }
}

export function outOfOrder(): TierAnswer {
  return { kind: 'failed', error: new Error('Out of order'), why: 'unreachable' }
}
