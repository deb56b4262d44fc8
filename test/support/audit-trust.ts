import { type AuditTrust, deriveAuditKeys, type RejectedEntry } from '../../src/console/platform/audit/mac.ts'
import { SIGNING_SECRET } from './signing-secret.ts'

/** Signs audit entries with the first secret, as a console does, and keeps what was rejected. */
export function trustIn(
  ...secrets: readonly Uint8Array[]
): AuditTrust & { readonly rejected: RejectedEntry[] } {
  const rejected: RejectedEntry[] = []
  const given = secrets.length === 0 ? [SIGNING_SECRET] : secrets
  return { keys: deriveAuditKeys(given), onRejected: entry => void rejected.push(entry), rejected }
}
