import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generate } from 'selfsigned'

const DAY_MS = 86_400_000

interface Pair {
  readonly cert: Buffer
  readonly key: Buffer
}

export interface Certificates {
  readonly caFile: string
  /** For 127.0.0.1 and localhost, signed by that authority. */
  readonly server: Pair
  /** For another name, signed by the same authority. */
  readonly misnamed: Pair
  /** For the right names, expired yesterday. */
  readonly expired: Pair
  readonly clientCertFile: string
  readonly clientKeyFile: string
  remove(): void
}

/** Creates a certificate authority for the test, and certificates signed by it. */
export async function makeCertificates(days = 2): Promise<Certificates> {
  const directory = mkdtempSync(join(tmpdir(), 'postern-tls-'))
  const path = (name: string) => join(directory, name)
  const save = (name: string, pair: Pair) => {
    writeFileSync(path(`${name}.pem`), pair.cert)
    writeFileSync(path(`${name}.key`), pair.key)
    return pair
  }
  // Each has its own name, by which a verifier that trusts two tells them apart.
  const authority = await issue(`test ca ${randomUUID()}`, {
    days,
    extensions: [{ name: 'basicConstraints', cA: true }],
  })
  save('ca', authority)
  const ca = { cert: String(authority.cert), key: String(authority.key) }
  const sign = async (name: string, names: readonly string[], lastingDays = days) =>
    save(name, await issue(name, { days: lastingDays, ca, extensions: [alternativeNames(names)] }))
  const here = ['127.0.0.1', 'localhost']
  await sign('client', ['gateway'])
  return {
    caFile: path('ca.pem'),
    server: await sign('server', here),
    misnamed: await sign('misnamed', ['elsewhere.example']),
    expired: await sign('expired', here, -1),
    clientCertFile: path('client.pem'),
    clientKeyFile: path('client.key'),
    remove: () => rmSync(directory, { recursive: true }),
  }
}

/** A self-signed certificate for `localhost`, in files. */
export interface SelfSigned {
  readonly certFile: string
  readonly keyFile: string
  remove(): void
}

export async function selfSigned(): Promise<SelfSigned> {
  const directory = mkdtempSync(join(tmpdir(), 'postern-tls-'))
  const files = { certFile: join(directory, 'cert.pem'), keyFile: join(directory, 'key.pem') }
  const { cert, key } = await issue('localhost', { days: 1, extensions: [alternativeNames(['localhost'])] })
  writeFileSync(files.certFile, cert)
  writeFileSync(files.keyFile, key)
  return { ...files, remove: () => rmSync(directory, { recursive: true, force: true }) }
}

interface Wish {
  /** How long it is valid from now on; negative if it expired so many days ago. */
  readonly days: number
  /** Who signs it; without it, itself. */
  readonly ca?: { readonly cert: string; readonly key: string }
  readonly extensions?: NonNullable<NonNullable<Parameters<typeof generate>[1]>['extensions']>
}

/** A certificate with a key of its own, both as PEM. */
export async function issue(commonName: string, { days, ca, extensions }: Wish): Promise<Pair> {
  const notAfterDate = new Date(Date.now() + days * DAY_MS)
  const { cert, private: key } = await generate([{ name: 'commonName', value: commonName }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notBeforeDate: new Date(Math.min(Date.now(), notAfterDate.getTime()) - DAY_MS),
    notAfterDate,
    ...(extensions === undefined ? {} : { extensions }),
    ...(ca === undefined ? {} : { ca }),
  })
  // A bundle joins several, each of which must end its line.
  return { cert: Buffer.from(`${cert.trim()}\n`), key: Buffer.from(`${key.trim()}\n`) }
}

function alternativeNames(names: readonly string[]) {
  const isAddress = (name: string) => /^[\d.]+$/.test(name)
  return {
    name: 'subjectAltName' as const,
    altNames: names.map(name =>
      isAddress(name) ? { type: 7 as const, ip: name } : { type: 2 as const, value: name },
    ),
  }
}
