import { buildConnector } from 'undici'
import { withoutFinalDot } from '../domain/address/host-name.ts'

/** undici's connector, which would send the final dot of an absolute name in TLS. */
export function createConnector(options: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector(options)
  return (target, callback) => {
    const name = target.servername || target.hostname
    connect(name.endsWith('.') ? { ...target, servername: withoutFinalDot(name) } : target, callback)
  }
}
