import { lookup } from 'node:dns/promises'
import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import { EVERY_ADDRESS } from '../config/schema/schema-builders.ts'
import { errorCode, SettingError, StartError } from '../domain/errors.ts'
import { withoutBrackets } from '../domain/form/address.ts'

const EVERY_IPV4 = '0.0.0.0'
const NO_IPV6: ReadonlySet<unknown> = new Set(['EAFNOSUPPORT', 'EADDRNOTAVAIL', 'EPROTONOSUPPORT'])

/**
 * @param setting prefix of the settings that name the address, for the error message
 * @returns the address as a URL, with the actual port
 */
export async function listen(
  app: FastifyInstance,
  setting: 'gateway' | 'gateway.check' | 'console' | 'console.internal' | 'ops',
  { host, port }: { host: string; port: number },
): Promise<string> {
  // As in a URL: `[::1]`.
  const wanted = withoutBrackets(host)
  let shown = wanted
  try {
    // For a name with several addresses, such as localhost, Fastify creates more servers, which would lack our limits.
    const { address } = await lookup(wanted)
    if ((await listenOn(app, address, port)) === EVERY_IPV4) shown = EVERY_IPV4
  } catch (error) {
    throw explainError(error, setting, host, port)
  }
  const address = app.server.address()
  const actualPort = address !== null && typeof address === 'object' ? address.port : port
  const scheme = app.server instanceof TlsServer ? 'https' : 'http'
  return `${scheme}://${shown.includes(':') ? `[${shown}]` : shown}:${actualPort}`
}

/**
 * `::` takes connections of both families. A kernel or sandbox without IPv6 refuses it: then IPv4 is all that there is.
 * @returns the address that it listens on
 */
async function listenOn(app: FastifyInstance, address: string, port: number): Promise<string> {
  try {
    await app.listen({ host: address, port })
    return address
  } catch (error) {
    if (address !== EVERY_ADDRESS || !NO_IPV6.has(errorCode(error))) throw error
    await app.listen({ host: EVERY_IPV4, port })
    return EVERY_IPV4
  }
}

function explainError(error: unknown, setting: string, host: string, port: number): unknown {
  switch (errorCode(error)) {
    case 'EADDRINUSE':
      return new StartError(
        `${setting}.port: port ${port} is already in use. Set another port, or 0 for any free port`,
      )
    case 'EACCES':
      return new SettingError(
        `${setting}.port: this user may not listen on port ${port}. Set a port above 1023`,
      )
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'ENOTFOUND':
      return new StartError(`${setting}.host: ${host} is not an address of this machine`)
    default:
      return error
  }
}
