import { once } from 'node:events'
import { connect, isIP } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import pg from 'pg'
import { DATABASE_SETTING } from '../console/platform/database/database.ts'
import { connectionConfig } from '../console/platform/database/postgres/connection.ts'
import { peerExpiry } from './certificates.ts'
import { ANSWER_MS } from './finding.ts'

/** Asks for TLS (PostgreSQL, "Message Formats", SSLRequest): its length and its code. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const ACCEPTED = 'S'.charCodeAt(0)

/** Of a client of the driver, whose types say less of `ssl`. */
interface Reached {
  readonly host: string
  readonly port: number
  readonly ssl: boolean | ConnectionOptions
}

/**
 * The driver shows no certificate, so this is a connection of its own, which ends before it names a user. It verifies what the
 * driver verifies.
 * @returns when the certificate expires, in milliseconds since the epoch; null without TLS, or if the server breaks off
 */
export async function postgresExpiry(url: string): Promise<number | null> {
  const config = connectionConfig(url, DATABASE_SETTING)
  // Knows the variables that complete the address, such as PGSSLMODE.
  const { host, port, ssl }: Reached = new pg.Client(config)
  if (!ssl) return null
  const signal = AbortSignal.timeout(ANSWER_MS)
  const socket = connect(port, host).on('error', () => {})
  try {
    socket.write(SSL_REQUEST)
    const [answer]: Buffer[] = await once(socket, 'data', { signal })
    if (answer?.[0] !== ACCEPTED) return null
    const options = typeof ssl === 'object' ? ssl : {}
    const name = isIP(host) === 0 ? { servername: host } : {}
    const secure = connectTls({ ...options, ...name, socket }).on('error', () => {})
    await once(secure, 'secureConnect', { signal })
    return peerExpiry(secure)
  } catch {
    // The check of the database has succeeded, so a date is all that is missing.
    return null
  } finally {
    socket.destroy()
  }
}
