import type { StoredKey } from '../../domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import type { Outbox } from './outbox.ts'
import type { PendingChange } from './rows/pending-changes.ts'

/** Whether a change was announced to a region. */
export interface RegionAnnounced {
  readonly region: string
  readonly announced: boolean
}

/** One for each region, in the order of the settings. */
export type Announced = readonly RegionAnnounced[]

export const isAnnounced = (regions: Announced) => regions.every(({ announced }) => announced)

/** Whether the settings name regions: otherwise there is one, of which nothing is said. */
export const areNamed = (regions: Announced) =>
  regions.length > 1 || regions.some(({ region }) => region !== DEFAULT_REGION)

/** Announced to a region if each was. */
export function combineAnnounced(all: readonly Announced[]): Announced {
  const [first = []] = all
  return first.map(({ region }, index) => ({
    region,
    announced: all.every(regions => regions[index]?.announced === true),
  }))
}

/** The outboxes of all regions: each announces for itself, so that one that is down holds up no other. */
export class RegionOutboxes {
  readonly #outboxes: ReadonlyMap<string, Outbox>

  constructor(outboxes: ReadonlyMap<string, Outbox>) {
    this.#outboxes = outboxes
  }

  /** As `Outbox.announce`: false for a region that has not confirmed within a second. */
  announce(key: StoredKey, changes: readonly PendingChange[]): Promise<Announced> {
    return this.#inEach(outbox => outbox.announce(key, changes))
  }

  announceAll(keys: readonly StoredKey[], changes: readonly PendingChange[]): Promise<Announced> {
    return this.#inEach(outbox => outbox.announceAll(keys, changes))
  }

  announcePending(key: Pick<StoredKey, 'digest'>): Promise<Announced> {
    return this.#inEach(outbox => outbox.announcePending(key))
  }

  hasAnnounced(workspaceId: string, atMs: number, maxWaitMs: number): Promise<Announced> {
    return this.#inEach(outbox => outbox.hasAnnounced(workspaceId, atMs, maxWaitMs))
  }

  async #inEach(announce: (outbox: Outbox) => Promise<boolean>): Promise<Announced> {
    return Promise.all(
      [...this.#outboxes].map(async ([region, outbox]) => ({ region, announced: await announce(outbox) })),
    )
  }
}
