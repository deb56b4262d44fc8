import type { ServerResponse } from 'node:http'
import type { Verdict } from '../domain/authorize.ts'
import { denialOfCounts, type PolicyCount, secondsUntil } from '../domain/limits/rate-limit.ts'
import type { RateLimits } from '../limits/rate-limiter.ts'

/** Counts a permitted request. Every response to it, also a denial, has the rate limit fields. */
export async function applyLimits(
  limits: RateLimits,
  permitted: Extract<Verdict, { kind: 'permitted' }>,
  response: ServerResponse,
): Promise<Verdict> {
  const counts = await limits.count(permitted.permit)
  for (const [name, value] of Object.entries(rateLimitFields(counts))) response.setHeader(name, value)
  return denialOfCounts(counts) ?? permitted
}

/**
 * The two fields of draft-ietf-httpapi-ratelimit-headers-11, as lists of structured fields (RFC 9651); a policy's name
 * needs no escaping. The Retry-After of a denial is never before the end of a window that is named here (section 6).
 */
export function rateLimitFields(counts: readonly PolicyCount[]): Record<string, string> {
  const policies = counts.map(({ policy: { name, requests, windowSeconds } }) => {
    return `"${name}";q=${requests};w=${windowSeconds}`
  })
  const limits = counts.map(({ policy: { name }, remaining, resetMs }) => {
    return `"${name}";r=${remaining};t=${secondsUntil(resetMs)}`
  })
  return { 'ratelimit-policy': policies.join(', '), ratelimit: limits.join(', ') }
}
