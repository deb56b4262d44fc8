import { LRUCache } from 'lru-cache'
import type { Metrics } from '../../observability/metrics.ts'
import type { KeptAnswer } from './cached-response.ts'

/** Of all memory, so that nobody's many questions push out what all others asked. */
const WORKSPACE_SHARE = 1 / 4
/** A workspace's own list, without what is in it. */
const WORKSPACE_BYTES = 2000

/**
 * Answers by workspace, then by question: what is looked for in one can be found in no other. Bounded in bytes; what was
 * used longest ago goes first, of the workspace that asked longest ago.
 */
export class AnswerCache {
  /** Grows when all that was asked before is to be forgotten, also what is still on its way. */
  epoch = 0
  readonly #maxBytes: number
  readonly #workspaces: LRUCache<string, LRUCache<string, KeptAnswer>>
  #bytes = 0

  constructor(maxBytes: number, metrics: Metrics) {
    this.#maxBytes = maxBytes
    this.#workspaces = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: () => WORKSPACE_BYTES,
      dispose: answers => answers.clear(),
    })
    metrics.answerCacheBytes.onCollect(gauge => gauge.set(this.bytes))
    metrics.answerCacheCapacity.set(maxBytes)
  }

  get bytes(): number {
    return this.#bytes + this.#workspaces.size * WORKSPACE_BYTES
  }

  find(workspaceId: string, question: string): KeptAnswer | undefined {
    return this.#workspaces.get(workspaceId)?.get(question)
  }

  store(workspaceId: string, question: string, answer: KeptAnswer): void {
    const size = answer.size + question.length
    if (size > this.#maxBytes * WORKSPACE_SHARE) {
      this.drop(workspaceId, question)
      return
    }
    const answers = this.#workspaces.get(workspaceId) ?? this.#begin(workspaceId)
    this.#bytes += size
    answers.set(question, answer, { size })
    while (this.bytes > this.#maxBytes) this.#forgetOldest()
  }

  drop(workspaceId: string, question: string): void {
    const answers = this.#workspaces.get(workspaceId)
    answers?.delete(question)
    if (answers?.size === 0) this.#workspaces.delete(workspaceId)
  }

  clear(): void {
    this.epoch++
    this.#workspaces.clear()
  }

  #begin(workspaceId: string): LRUCache<string, KeptAnswer> {
    const answers = new LRUCache<string, KeptAnswer>({
      maxSize: Math.floor(this.#maxBytes * WORKSPACE_SHARE),
      dispose: ({ size }, question) => {
        this.#bytes -= size + question.length
      },
    })
    this.#workspaces.set(workspaceId, answers)
    return answers
  }

  #forgetOldest(): void {
    const { value: workspaceId } = this.#workspaces.rkeys().next()
    if (workspaceId === undefined) return
    const answers = this.#workspaces.peek(workspaceId)
    answers?.pop()
    if (answers?.size === 0) this.#workspaces.delete(workspaceId)
  }
}
