import type { Server } from 'node:http'
import type { Clock } from '../domain/clock.ts'
import { compileProxies, isTrustedProxy } from '../http/client-address.ts'
import { limitConnections } from '../http/connection-limit.ts'
import { FailureLog, type Log } from './failure-log.ts'
import { CONNECTION_LIMITS, type LISTENERS, type Metrics } from './metrics/metrics.ts'

export interface ListenerLimits {
  readonly maxConnections: number
  readonly maxConnectionsPerAddress?: number | undefined
  /** They have no limit of their own: their connections are those of many clients. */
  readonly trustedProxies?: readonly string[]
}

interface ListenerLimitParts {
  readonly metrics: Pick<Metrics, 'connectionsClosed'>
  readonly logger: Log
  readonly clock: Clock
}

/** Limits the connections of a listener, counts those that it closes, and logs when it begins and ends to close them. */
export function limitListener(
  server: Server,
  listener: (typeof LISTENERS)[number],
  limits: ListenerLimits,
  { metrics, logger, clock }: ListenerLimitParts,
): void {
  const { maxConnections, maxConnectionsPerAddress: maxPerAddress = null } = limits
  const proxies = compileProxies(limits.trustedProxies ?? [])
  const failures = new FailureLog('connection accept', logger, clock)
  const text = 'reached; closing new connections or those without a complete request'
  const reached = {
    listener: new Error(`${listener}: connection limit (${maxConnections}) ${text}`),
    address: new Error(`${listener}: connection limit of one address (${maxPerAddress}) ${text}`),
  }
  for (const limit of CONNECTION_LIMITS) metrics.connectionsClosed.inc({ listener, limit }, 0)
  limitConnections(server, {
    maxConnections,
    maxPerAddress,
    isExempt: address => isTrustedProxy(proxies, address),
    onAccepted: () => failures.succeeded(),
    onClosed: limit => {
      metrics.connectionsClosed.inc({ listener, limit })
      failures.failed(reached[limit])
    },
  })
}
