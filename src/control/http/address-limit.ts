import { hash } from 'node:crypto'
import { isIPv6 } from 'node:net'
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import type { RandomBytes } from '../registry/operations/ids.ts'

/** Bounds the memory: addresses share this many counters. */
const BUCKETS = 65_536
const MINUTE_SECONDS = 60

/** Counts an attempt. @returns seconds to wait; 0 if the attempt is allowed */
export type AddressLimit = (address: string) => Promise<number>

/** Limits attempts per address and minute, in this process. */
export function createAddressLimit(perMinute: number, randomBytes: RandomBytes): AddressLimit {
  const limiter = new RateLimiterMemory({ points: perMinute, duration: MINUTE_SECONDS })
  // Salted, so that an attacker cannot choose an address that shares a counter with a victim's.
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

/** One IPv6 client controls its whole /64. */
function networkOf(address: string): string {
  if (!isIPv6(address) || address.includes('.')) return address
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const missing = tail === undefined ? 0 : 8 - groups.length - tail.split(':').length
  return [...groups, ...Array.from({ length: missing }, () => '0'), ...(tail ?? '').split(':')]
    .slice(0, 4)
    .join(':')
}
