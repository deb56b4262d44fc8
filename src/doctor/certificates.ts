import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { readNamedFile } from '../config/setting-files.ts'
import { certificatesIn } from '../domain/pem.ts'
import { CheckFailure, type Examined } from './finding.ts'

const DAY_MS = 86_400_000
const WARN_DAYS = 14

/** When the certificate of the other end expires, in milliseconds since the epoch; null without TLS. */
export function peerExpiry(socket: Socket | null): number | null {
  if (!(socket instanceof TLSSocket)) return null
  const expiry = Date.parse(socket.getPeerCertificate().valid_to)
  return Number.isNaN(expiry) ? null : expiry
}

/** Begins with a comma; empty without a certificate. */
export function expiryNote(expiresAtMs: number | null, nowMs = Date.now()): string {
  if (expiresAtMs === null) return ''
  const days = Math.floor((expiresAtMs - nowMs) / DAY_MS)
  const text = days === 1 ? '1 day' : `${days} days`
  return days < WARN_DAYS
    ? `, WARNING: certificate expires in ${text}, renew it`
    : `, certificate valid for ${text}`
}

/** A certificate that this process presents. @param setting that names its file */
export async function checkOwnCertificate(setting: string, file: string): Promise<Examined> {
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
  const found = `${setting}${expiryNote(expiresAtMs, nowMs)}`
  return { finding: { check: 'certificate', isOk: true, found, advice: null } }
}
