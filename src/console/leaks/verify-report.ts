import { type KeyObject, verify } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

const IDENTIFIER = /^[A-Za-z0-9._-]{1,128}$/
/** An ECDSA P-256 signature in DER has at most 72 bytes. */
const SIGNATURE = /^[A-Za-z0-9+/]{1,100}={0,2}$/

export interface ReportSignature {
  readonly identifier: string
  readonly signature: Buffer
}

/** @returns null if a header is missing, repeated or malformed: Node joins repeated ones with a comma */
export function readSignature(headers: IncomingHttpHeaders): ReportSignature | null {
  const identifier = headers['github-public-key-identifier']
  const signature = headers['github-public-key-signature']
  if (typeof identifier !== 'string' || !IDENTIFIER.test(identifier)) return null
  if (typeof signature !== 'string' || !SIGNATURE.test(signature)) return null
  return { identifier, signature: Buffer.from(signature, 'base64') }
}

/** ECDSA with SHA-256 over the bytes as received. */
export function isSignedBy(key: KeyObject, body: Buffer, signature: Buffer): boolean {
  return verify('sha256', body, { key, dsaEncoding: 'der' }, signature)
}
