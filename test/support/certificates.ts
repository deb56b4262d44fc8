import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Certificates {
  readonly caFile: string
  /** For 127.0.0.1 and localhost, by that authority. */
  readonly server: { readonly cert: Buffer; readonly key: Buffer }
  /** For another name, by the same authority. */
  readonly misnamed: { readonly cert: Buffer; readonly key: Buffer }
  /** For the right names, until yesterday. */
  readonly expired: { readonly cert: Buffer; readonly key: Buffer }
  readonly clientCertFile: string
  readonly clientKeyFile: string
  remove(): void
}

/** An authority of the test's own, and what it signed. */
export function makeCertificates(days = 2): Certificates {
  const directory = mkdtempSync(join(tmpdir(), 'postern-tls-'))
  const path = (name: string) => join(directory, name)
  const openssl = (...args: string[]) => {
    execFileSync('openssl', args, { cwd: directory, stdio: 'ignore' })
  }
  const pair = (name: string) => ({
    cert: readFileSync(path(`${name}.pem`)),
    key: readFileSync(path(`${name}.key`)),
  })
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const newKey = [...curve, '-days', String(days)]
  openssl('req', '-x509', ...newKey, '-subj', '/CN=test ca', '-keyout', 'ca.key', '-out', 'ca.pem')
  const sign = (name: string, subject: string) => {
    const issuer = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-addext', `subjectAltName=${subject}`]
    openssl(
      'req',
      '-x509',
      ...newKey,
      ...issuer,
      '-subj',
      `/CN=${name}`,
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.pem`,
    )
    return pair(name)
  }
  const server = sign('server', 'IP:127.0.0.1,DNS:localhost')
  const misnamed = sign('misnamed', 'DNS:elsewhere.example')
  // `openssl req` signs for no day that is over.
  const wish = ['-subj', '/CN=server', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
  openssl('req', '-new', ...curve, ...wish, '-keyout', 'expired.key', '-out', 'expired.csr')
  const late = [
    '-CA',
    'ca.pem',
    '-CAkey',
    'ca.key',
    '-CAcreateserial',
    '-copy_extensions',
    'copy',
    '-days',
    '-1',
  ]
  openssl('x509', '-req', '-in', 'expired.csr', ...late, '-out', 'expired.pem')
  const expired = pair('expired')
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
