import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Certificates {
  readonly caFile: string
  /** For 127.0.0.1 and localhost, signed by that authority. */
  readonly server: { readonly cert: Buffer; readonly key: Buffer }
  /** For another name, signed by the same authority. */
  readonly misnamed: { readonly cert: Buffer; readonly key: Buffer }
  /** For the right names, expired yesterday. */
  readonly expired: { readonly cert: Buffer; readonly key: Buffer }
  readonly clientCertFile: string
  readonly clientKeyFile: string
  remove(): void
}

/** Creates a certificate authority for the test, and certificates signed by it. */
export function makeCertificates(days = 2): Certificates {
  const directory = mkdtempSync(join(tmpdir(), 'postern-tls-'))
  const path = (name: string) => join(directory, name)
  const openssl = (...args: string[]) => {
    execFileSync('openssl', args, { cwd: directory, stdio: 'ignore' })
  }
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const lasting = ['-days', String(days)]
  openssl(
    'req',
    '-x509',
    ...newKey,
    ...lasting,
    '-subj',
    '/CN=test ca',
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
  )
  // In two steps: `openssl req` alone cannot set a validity that has already ended.
  const sign = (name: string, names: string, validity = lasting) => {
    const wish = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`]
    openssl('req', '-new', ...newKey, ...wish, '-keyout', `${name}.key`, '-out', `${name}.csr`)
    const issuer = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-copy_extensions', 'copy']
    openssl('x509', '-req', '-in', `${name}.csr`, ...issuer, ...validity, '-out', `${name}.pem`)
    return { cert: readFileSync(path(`${name}.pem`)), key: readFileSync(path(`${name}.key`)) }
  }
  const here = 'IP:127.0.0.1,DNS:localhost'
  const server = sign('server', here)
  const misnamed = sign('misnamed', 'DNS:elsewhere.example')
  const expired = sign('expired', here, ['-days', '-1'])
  sign('client', 'DNS:gateway')
  return {
    caFile: path('ca.pem'),
    server,
    misnamed,
    expired,
    clientCertFile: path('client.pem'),
    clientKeyFile: path('client.key'),
    remove: () => rmSync(directory, { recursive: true }),
  }
}
