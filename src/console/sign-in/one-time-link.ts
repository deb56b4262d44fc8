import { hash, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import type { OneTimeLink, Person } from '../platform/access/person.ts'
import type { RandomBytes } from '../platform/database/ids.ts'

const LIFE_MS = 3_600_000

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
