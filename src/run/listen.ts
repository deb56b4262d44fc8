import { lookup } from 'node:dns/promises'
import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import { StartError } from '../domain/start-error.ts'

/**
 * @param setting prefix of the settings that name the address, for the error message
 * @returns the address as a URL, with the actual port
 */
export async function listen(
  app: FastifyInstance,
  setting: 'gateway' | 'gateway.check' | 'console' | 'console.internal' | 'ops',
  { host, port }: { host: string; port: number },
): Promise<string> {
  try {
    // For a name with several addresses, such as localhost, Fastify creates more servers, which would lack our limits.
    const { address } = await lookup(host)
    await app.listen({ host: address, port })
  } catch (error) {
    throw explainError(error, setting, host, port)
  }
  const address = app.server.address()
  const actualPort = address !== null && typeof address === 'object' ? address.port : port
  const scheme = app.server instanceof TlsServer ? 'https' : 'http'
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${actualPort}`
}

function explainError(error: unknown, setting: string, host: string, port: number): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'EADDRINUSE':
      return new StartError(
        `${setting}.port: port ${port} is already in use. Set another port, or 0 for any free port`,
      )
    case 'EACCES':
      return new StartError(
        `${setting}.port: this user may not listen on port ${port}. Set a port above 1023`,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new StartError(`${setting}.host: ${host} is not an address of this machine`)
    default:
      return error
  }
}
