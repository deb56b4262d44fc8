import { hash } from 'node:crypto'
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { clientNetworkOf } from '../../../domain/address/cidr.ts'
import type { RandomBytes } from '../ids.ts'

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
    const bucket = hash('sha256', `${salt} ${clientNetworkOf(address)}`, 'buffer').readUInt32BE() % BUCKETS
    try {
      await limiter.consume(bucket)
      return 0
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal
      return Math.max(1, Math.ceil(refusal.msBeforeNext / 1000))
    }
  }
}
