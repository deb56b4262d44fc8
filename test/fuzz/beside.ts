import { MAX_UNANSWERED } from './connection-law.ts'
import type { Listener } from './connection-plans.ts'
import type { HonestFigures } from './honest-client.ts'

/** Observations apart from the connections of a plan. */
export interface Beside {
  readonly honest: Readonly<Record<Listener, HonestFigures>>
  /** Requests that must not reach the upstream, arrived too late, or exceed the limit of one connection. */
  readonly atUpstream: readonly string[]
  readonly peakInFlight: number
  /** Peak resident memory of each process, in MB. */
  readonly peakMegabytes: Readonly<Record<Listener, number>>
}

export const LISTENERS: readonly Listener[] = ['gateway', 'console']
/** The chart's default memory limit of a pod. */
export const MAX_MEGABYTES = 384

/**
 * Checks that memory is bounded and well-behaved clients are served.
 * @param connections maximum number of open connections
 */
export function breachesBeside(beside: Beside, connections: number): string[] {
  const { honest, atUpstream, peakInFlight, peakMegabytes } = beside
  const breaches = atUpstream.map(request => `must not reach the upstream: ${request}`)
  for (const listener of LISTENERS) {
    const { failed } = honest[listener]
    breaches.push(...failed.map(answer => `a well-behaved request to the ${listener} failed: ${answer}`))
    const megabytes = peakMegabytes[listener]
    if (megabytes > MAX_MEGABYTES) breaches.push(`the ${listener} used ${megabytes.toFixed(0)} MB`)
  }
  const most = connections * MAX_UNANSWERED + 1
  if (peakInFlight > most) breaches.push(`${peakInFlight} requests were in flight where ${most} may be`)
  return breaches
}

/** The figures as text. */
export function describeBeside({ honest, peakInFlight, peakMegabytes }: Beside): string {
  const clients = LISTENERS.map(listener => {
    const { sent, failed, p99Ms } = honest[listener]
    return `${listener} ${sent} sent, ${failed.length} failed, p99 ${p99Ms.toFixed(0)} ms`
  })
  const memory = LISTENERS.map(listener => `${listener} ${peakMegabytes[listener].toFixed(0)} MB`)
  return `honest requests beside it: ${clients.join('; ')}; at most ${peakInFlight} in flight; ${memory.join(', ')}`
}
