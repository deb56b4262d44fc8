import { chmodSync, chownSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Certificates } from './certificates.ts'
import { unprivilegedUser } from './postgres-programs.ts'

/** Writes a file that a temporary server reads, and no other user but root. @returns its path */
export function writeServerFile(directory: string, name: string, content: string | Buffer): string {
  const owner = unprivilegedUser()
  const path = join(directory, name)
  // The server's user must pass through.
  chmodSync(directory, 0o755)
  writeFileSync(path, content, { mode: 0o600 })
  if (owner !== null) chownSync(path, owner.uid, owner.gid)
  return path
}

/** With these settings a temporary server speaks TLS. @param name of its files in the directory */
export function tlsSettings(
  directory: string,
  name: string,
  { cert, key }: Certificates['server'],
): Readonly<Record<string, string>> {
  return {
    ssl: 'on',
    ssl_cert_file: writeServerFile(directory, `${name}-cert.pem`, cert),
    ssl_key_file: writeServerFile(directory, `${name}-key.pem`, key),
  }
}
