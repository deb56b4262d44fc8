import { hash, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import type { Person } from '../platform/access/principal.ts'
import type { RandomBytes } from '../platform/database/ids.ts'

const LIFE_MS = 3_600_000

/** Signing in without a provider, only for `postern demo`: the link works once, for an hour. */
export interface OneTimeLink {
  /** Path and query, printed only to the terminal of the demo. */
  readonly path: string
  /** Replaces the link by a new one. */
  renew(): void
  /** @returns null for a wrong, used or expired token */
  take(token: unknown): Person | null
}

export function createOneTimeLink(person: Person, clock: Clock, randomBytes: RandomBytes): OneTimeLink {
  const create = () => ({
    token: Buffer.from(randomBytes(32)).toString('base64url'),
    endsAtMs: clock.monotonicMs() + LIFE_MS,
    isUsed: false,
  })
  let link = create()
  return {
    get path() {
      return `/sign-in/once?token=${link.token}`
    },
    renew() {
      link = create()
    },
    take(presented) {
      if (link.isUsed || clock.monotonicMs() >= link.endsAtMs || !isSame(presented, link.token)) return null
      link.isUsed = true
      return person
    },
  }
}

function isSame(presented: unknown, token: string): boolean {
  if (typeof presented !== 'string') return false
  return timingSafeEqual(hash('sha256', presented, 'buffer'), hash('sha256', token, 'buffer'))
}
