import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { DiagnosticsChannel } from 'undici'
import { readNamedFile } from '../config/setting-files.ts'
import { withoutBrackets } from '../domain/form/address.ts'
import { certificatesIn } from '../domain/pem.ts'
import { hostAndPort } from '../outgoing/connect.ts'
import { CheckFailure, type Passed } from './finding.ts'

const DAY_MS = 86_400_000
const WARN_DAYS = 14

/** When the certificate of the other end expires, in milliseconds since the epoch; null without TLS. */
export function peerExpiry(socket: Socket | null): number | null {
  if (!(socket instanceof TLSSocket)) return null
  const expiry = Date.parse(socket.getPeerCertificate().valid_to)
  return Number.isNaN(expiry) ? null : expiry
}

interface SeenCertificates {
  /** When the certificate of this server expires, in milliseconds since the epoch; null without TLS. */
  expiryOf(url: URL): number | null
  stop(): void
}

const CONNECTED = 'undici:client:connected'

/** Notes the certificates of the servers to which undici connects from now on, also through a proxy. */
export function watchCertificates(): SeenCertificates {
  const seen = new Map<string, number>()
  const note = (message: unknown) => {
    // What undici documents for this channel, which has no type of its own in Node.
    const { connectParams, socket } = message as DiagnosticsChannel.ClientConnectedMessage
    const expiry = peerExpiry(socket)
    if (expiry !== null) seen.set(serverName(connectParams), expiry)
  }
  subscribe(CONNECTED, note)
  return {
    expiryOf: url => seen.get(serverName(url)) ?? null,
    stop: () => void unsubscribe(CONNECTED, note),
  }
}

function serverName({ hostname, port }: { readonly hostname: string; readonly port: string }): string {
  return hostAndPort(withoutBrackets(hostname), port)
}

/** Begins with a comma; empty without a certificate. */
export function expiryNote(expiresAtMs: number | null, nowMs = Date.now()): string {
  if (expiresAtMs === null) return ''
  // Of a server that is not verified.
  if (expiresAtMs <= nowMs) {
    const day = new Date(expiresAtMs).toISOString().slice(0, 10)
    return `, WARNING: certificate expired on ${day}, renew it`
  }
  const days = Math.floor((expiresAtMs - nowMs) / DAY_MS)
  const text = days === 1 ? '1 day' : `${days} days`
  return days < WARN_DAYS
    ? `, WARNING: certificate expires in ${text}, renew it`
    : `, certificate valid for ${text}`
}

/** A certificate that this process presents. @param setting that names its file */
export async function checkOwnCertificate(setting: string, file: string): Promise<Passed> {
  const [own] = certificatesIn(readNamedFile(file, setting))
  if (own === undefined) throw new CheckFailure(`${setting}: the file contains no PEM certificate`, null)
  const nowMs = Date.now()
  const expiresAtMs = own.validToDate.getTime()
  if (expiresAtMs <= nowMs) {
    throw new CheckFailure(`${setting} expired on ${own.validToDate.toISOString()}`, 'renew the certificate')
  }
  if (own.validFromDate.getTime() > nowMs) {
    const from = own.validFromDate.toISOString()
    throw new CheckFailure(`${setting} is valid only from ${from}`, 'check the clock, or wait')
  }
  return { found: `${setting}${expiryNote(expiresAtMs, nowMs)}` }
}
