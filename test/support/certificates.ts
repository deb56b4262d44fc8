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
  readonly clientCertFile: string
  readonly clientKeyFile: string
  remove(): void
}

/** An authority of the test's own, and what it signed. @param when what `faketime` is to take for now */
export function makeCertificates(days = 2, when?: string): Certificates {
  const directory = mkdtempSync(join(tmpdir(), 'postern-tls-'))
  const path = (name: string) => join(directory, name)
  const launcher = when === undefined ? [] : ['faketime', when]
  const openssl = (...args: string[]) => {
    const [program = '', ...words] = [...launcher, 'openssl', ...args]
    execFileSync(program, words, { cwd: directory, stdio: 'ignore' })
  }
  const newKey = [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    String(days),
  ]
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
    return { cert: readFileSync(path(`${name}.pem`)), key: readFileSync(path(`${name}.key`)) }
  }
  const server = sign('server', 'IP:127.0.0.1,DNS:localhost')
  const misnamed = sign('misnamed', 'DNS:elsewhere.example')
  sign('client', 'DNS:gateway')
  return {
    caFile: path('ca.pem'),
    server,
    misnamed,
    clientCertFile: path('client.pem'),
    clientKeyFile: path('client.key'),
    remove: () => rmSync(directory, { recursive: true }),
  }
}
