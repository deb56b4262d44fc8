import { setTimeout as sleep } from 'node:timers/promises'
import { percentile } from '../support/closed-loop.ts'
import { readResponse, valuesOf } from './strict-answer.ts'
import { StrictClient } from './strict-client.ts'

export interface HonestFigures {
  readonly sent: number
  readonly failed: readonly string[]
  readonly p99Ms: number
}

/** Limits the load of this client, because the fuzzed requests are the ones that count. */
const PAUSE_MS = 5

/** Sends one request after the other on one connection and expects 200 each time. */
export class HonestClient {
  readonly #url: string
  readonly #request: string
  #sent = 0
  #failed: string[] = []
  #tookMs: number[] = []
  #isRunning = true
  #onAnswer = () => {}
  readonly #stopped: Promise<void>

  constructor(url: string, request: string) {
    this.#url = url
    this.#request = request
    this.#stopped = this.#send()
  }

  /** Figures since the last call. */
  take(): HonestFigures {
    const figures = { sent: this.#sent, failed: this.#failed, p99Ms: percentile(this.#tookMs, 0.99) }
    this.#sent = 0
    this.#failed = []
    this.#tookMs = []
    return figures
  }

  /** Waits for the next two responses, so that the second request was sent after this call. */
  async served(): Promise<void> {
    for (let count = 0; count < 2; count++) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#onAnswer = resolve
      await promise
    }
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    await this.#stopped
  }

  async #send(): Promise<void> {
    let client = new StrictClient(this.#url)
    while (this.#isRunning) {
      const startedAtMs = performance.now()
      const { bytes, ended } = await client.send(this.#request)
      const answer = readResponse(bytes)
      this.#sent++
      this.#tookMs.push(performance.now() - startedAtMs)
      const isServed = answer.kind === 'whole' && answer.head.status === 200 && answer.end === bytes.length
      if (!isServed) this.#failed.push(`${ended} ${JSON.stringify(bytes.toString('latin1').slice(0, 300))}`)
      const isOver =
        ended !== 'open' || !isServed || valuesOf(answer.head.fields, 'connection').includes('close')
      if (isOver) {
        client.destroy()
        client = new StrictClient(this.#url)
      }
      this.#onAnswer()
      await sleep(PAUSE_MS)
    }
    client.destroy()
  }
}
