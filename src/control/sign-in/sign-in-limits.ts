import { hash } from 'node:crypto'
import { isIPv6 } from 'node:net'
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import type { RandomBytes } from '../registry/operations/ids.ts'

/** However many addresses there are, so many are told apart. */
const BUCKETS = 65_536
const MINUTE_SECONDS = 60

/** @returns how long the address has to wait, in seconds; 0 where it may go on */
export type SignInLimit = (address: string) => Promise<number>

/** Attempts of one address in a minute, counted in this process. */
export function createSignInLimit(perMinute: number, randomBytes: RandomBytes): SignInLimit {
  const limiter = new RateLimiterMemory({ points: perMinute, duration: MINUTE_SECONDS })
  // A salt of its own, so that nobody can choose an address that shares a count with somebody else's.
  const salt = Buffer.from(randomBytes(16)).toString('hex')
  return async address => {
    const bucket = hash('sha256', `${salt} ${networkOf(address)}`, 'buffer').readUInt32BE() % BUCKETS
    try {
      await limiter.consume(bucket)
      return 0
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal
      return Math.max(1, Math.ceil(refusal.msBeforeNext / 1000))
    }
  }
}

/** Who has one IPv6 address has the 2^64 of its network. */
function networkOf(address: string): string {
  if (!isIPv6(address) || address.includes('.')) return address
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const missing = tail === undefined ? 0 : 8 - groups.length - tail.split(':').length
  return [...groups, ...Array.from({ length: missing }, () => '0'), ...(tail ?? '').split(':')]
    .slice(0, 4)
    .join(':')
}
