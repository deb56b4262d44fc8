import { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type pg from 'pg'
import { readNamedFile } from '../../../../config/setting-files.ts'
import { SettingError } from '../../../../domain/errors.ts'
import { withoutFinalDot } from '../../../../domain/form/address.ts'
import { requireAuthorities, requirePair } from '../../../../domain/pem.ts'
import { type PostgresTls, readPostgresAddress } from '../../../../domain/postgres-address.ts'

/** `sslrootcert` for the CAs that Node trusts. */
const SYSTEM = 'system'

/**
 * What the driver needs to connect to a postgres: address.
 * @param name of the setting or argument, for messages
 * @throws SettingError if a file cannot be read or used
 */
export function connectionConfig(url: string, name: string): pg.ClientConfig {
  const { host, port, user, password, database, tls, options } = readPostgresAddress(url)
  return {
    ...hostConfig(host),
    ...(port === null ? {} : { port }),
    ...(user === null ? {} : { user }),
    ...(password === null ? {} : { password }),
    ...(database === null ? {} : { database }),
    ...(options === null ? {} : { options }),
    ...(tls === undefined ? {} : { ssl: tls === null ? false : tlsOptions(tls, name) }),
  }
}

function tlsOptions({ mode, rootCertFile, certFile, keyFile }: PostgresTls, name: string): ConnectionOptions {
  const read = (file: string | null, parameter: string) =>
    file === null ? undefined : readNamedFile(file, `${name}: ${parameter}`)
  const ca = rootCertFile === SYSTEM ? undefined : read(rootCertFile, 'sslrootcert')
  const cert = read(certFile, 'sslcert')
  const key = read(keyFile, 'sslkey')
  try {
    if (ca !== undefined) requireAuthorities(ca, `${name}: sslrootcert`)
    if (cert !== undefined && key !== undefined) requirePair(cert, key, `${name}: sslcert`)
  } catch (error) {
    throw error instanceof Error ? new SettingError(error.message) : error
  }
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert, key }),
    ...(mode === 'no-verify' ? { rejectUnauthorized: false } : {}),
    ...(mode === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
  }
}

/**
 * The driver sends its host as the server's name in TLS, and a final dot with it. So it gets a name without the dot, and a
 * socket that resolves the one with it.
 */
function hostConfig(name: string): Pick<pg.ClientConfig, 'host' | 'stream'> {
  const host = withoutFinalDot(name)
  return host === name || name.startsWith('/') ? { host: name } : { host, stream: () => new SocketTo(name) }
}

class SocketTo extends Socket {
  readonly #host: string

  constructor(host: string) {
    super()
    this.#host = host
  }

  /** The driver calls it with a port and its own host. */
  override connect(...[port]: unknown[]): this {
    return super.connect(Number(port), this.#host)
  }
}
