import { DEFAULT_REGION } from '../../domain/region.ts'
import type { Log } from '../../observability/failure-log.ts'

const ADVICE =
  'set region to one of the console’s regions; it announces changes to none of this name, so each key is verified at the console, and this gateway is not ready'

/** Whether the console knows the region of this gateway. One that it does not know receives no revocation over Redis. */
export class RegionCheck {
  readonly #region: string
  readonly #log: Log
  #isUnknown = false

  constructor(region: string | undefined, log: Log) {
    this.#region = region ?? DEFAULT_REGION
    this.#log = log
  }

  get isUnknown(): boolean {
    return this.#isUnknown
  }

  /** @param regions of the console; none if it does not say, or has no Redis */
  observe(regions: readonly string[]): void {
    const isUnknown = regions.length > 0 && !regions.includes(this.#region)
    if (isUnknown === this.#isUnknown) return
    this.#isUnknown = isUnknown
    const fields = { setting: 'region', region: this.#region, regions }
    if (isUnknown) this.#log.error({ ...fields, advice: ADVICE }, 'the console has no such region')
    else this.#log.info(fields, 'the console has this region again')
  }
}
