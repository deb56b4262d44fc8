import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A self-signed certificate for `localhost`, in files. */
export class Certificates {
  readonly #directory = mkdtempSync(join(tmpdir(), 'postern-tls-'))
  readonly certFile = join(this.#directory, 'cert.pem')
  readonly keyFile = join(this.#directory, 'key.pem')

  constructor() {
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    const files = ['-keyout', this.keyFile, '-out', this.certFile]
    const args = ['req', '-x509', ...key, ...files, '-days', '1', ...subject]
    execFileSync('openssl', args, { stdio: 'ignore' })
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}
