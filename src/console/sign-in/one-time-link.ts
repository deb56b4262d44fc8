import { hash, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import type { OneTimeLink, Person } from '../platform/access/person.ts'
import type { RandomBytes } from '../platform/database/ids.ts'

const LIFE_MS = 3_600_000

export function createOneTimeLink(person: Person, clock: Clock, randomBytes: RandomBytes): OneTimeLink {
  const token = Buffer.from(randomBytes(32)).toString('base64url')
  const endsAtMs = clock.monotonicMs() + LIFE_MS
  let isUsed = false
  return {
    path: `/sign-in/once?token=${token}`,
    take(presented) {
      if (isUsed || clock.monotonicMs() >= endsAtMs || !isSame(presented, token)) return null
      isUsed = true
      return person
    },
  }
}

function isSame(presented: unknown, token: string): boolean {
  if (typeof presented !== 'string') return false
  return timingSafeEqual(hash('sha256', presented, 'buffer'), hash('sha256', token, 'buffer'))
}
