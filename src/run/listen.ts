import { lookup } from 'node:dns/promises'
import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance } from 'fastify'

/** Something at start that a person can mend; its message is the whole of what they are told. */
export class StartError extends Error {}

/**
 * Listens, and says where.
 * @param setting prefix of the settings that name the address, for the message when it cannot be had
 * @returns the address as a URL, the port being the one that was taken
 */
export async function listen(
  app: FastifyInstance,
  setting: 'gateway' | 'console' | 'console.internal' | 'ops',
  { host, port }: { host: string; port: number },
): Promise<string> {
  try {
    // For a name of several addresses, as localhost is, Fastify makes more servers, which would lack our limits.
    const { address } = await lookup(host)
    await app.listen({ host: address, port })
  } catch (error) {
    throw explain(error, setting, host, port)
  }
  const address = app.server.address()
  const taken = address !== null && typeof address === 'object' ? address.port : port
  const scheme = app.server instanceof TlsServer ? 'https' : 'http'
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${taken}`
}

function explain(error: unknown, setting: string, host: string, port: number): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'EADDRINUSE':
      return new StartError(
        `${setting}.port: ${port} is taken by another program. Choose another one, or 0 for any`,
      )
    case 'EACCES':
      return new StartError(`${setting}.port: ${port} may not be used by this user. Choose one above 1023`)
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new StartError(`${setting}.host: ${host} is no address of this machine`)
    default:
      return error
  }
}
