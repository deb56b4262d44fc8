import type { ReportContent } from './usage-counts.ts'

/** A report, with the field names of the key service contract. */
export interface UsageReport extends ReportContent {
  /** This process: no other has this name, and neither has the same gateway after a restart. */
  readonly gateway: string
  /** From 1. The key service counts each sequence number of a gateway once. */
  readonly sequence: number
}

/**
 * Numbers reports. A report is repeated unchanged until it is settled, and only then the next one is made: whether a report
 * that failed was counted is unknown.
 */
export class ReportSequence {
  readonly #gateway: string
  readonly #take: () => ReportContent | null
  #sequence = 0
  #unsettled: UsageReport | null = null

  /** @param take removes what is to be reported next */
  constructor(gateway: string, take: () => ReportContent | null) {
    this.#gateway = gateway
    this.#take = take
  }

  /** @returns the report to send now; null if there is none */
  next(): UsageReport | null {
    if (this.#unsettled !== null) return this.#unsettled
    const content = this.#take()
    if (content === null) return null
    this.#sequence++
    this.#unsettled = { gateway: this.#gateway, sequence: this.#sequence, ...content }
    return this.#unsettled
  }

  /** The report was acknowledged, or will never be accepted. */
  settle(): void {
    this.#unsettled = null
  }

  get isUnsettled(): boolean {
    return this.#unsettled !== null
  }
}
