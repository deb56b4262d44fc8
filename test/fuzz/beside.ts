import { MAX_UNANSWERED } from './connection-law.ts'
import type { Listener } from './connection-plans.ts'
import type { HonestFigures } from './honest-client.ts'

/** What was seen beside the connections of a plan. */
export interface Beside {
  readonly honest: Readonly<Record<Listener, HonestFigures>>
  /** Requests that may not reach the upstream, or come too late, or are too many of one connection. */
  readonly atUpstream: readonly string[]
  readonly peakInFlight: number
  /** The most resident memory that each process ever had, in MB. */
  readonly peakMegabytes: Readonly<Record<Listener, number>>
}

export const LISTENERS: readonly Listener[] = ['gateway', 'console']
/** What the chart gives a pod by default. */
export const MAX_MEGABYTES = 384

/**
 * Memory is bounded, and honest clients are served.
 * @param connections that were open at a time at most
 */
export function breachesBeside(beside: Beside, connections: number): string[] {
  const { honest, atUpstream, peakInFlight, peakMegabytes } = beside
  const breaches = atUpstream.map(request => `it may not be at the upstream: ${request}`)
  for (const listener of LISTENERS) {
    const { failed } = honest[listener]
    breaches.push(...failed.map(answer => `an honest request to the ${listener} failed: ${answer}`))
    const megabytes = peakMegabytes[listener]
    if (megabytes > MAX_MEGABYTES) breaches.push(`the ${listener} has taken ${megabytes.toFixed(0)} MB`)
  }
  const most = connections * MAX_UNANSWERED + 1
  if (peakInFlight > most) breaches.push(`${peakInFlight} requests were in flight where ${most} may be`)
  return breaches
}

/** The figures, for people. */
export function describeBeside({ honest, peakInFlight, peakMegabytes }: Beside): string {
  const clients = LISTENERS.map(listener => {
    const { sent, failed, p99Ms } = honest[listener]
    return `${listener} ${sent} sent, ${failed.length} failed, p99 ${p99Ms.toFixed(0)} ms`
  })
  const memory = LISTENERS.map(listener => `${listener} ${peakMegabytes[listener].toFixed(0)} MB`)
  return `honest requests beside it: ${clients.join('; ')}; at most ${peakInFlight} in flight; ${memory.join(', ')}`
}
