import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { errorCode, SettingError } from '../domain/errors.ts'
import { requireAuthorities, requirePair } from '../domain/pem.ts'
import type { ConfigProblem } from './config-error.ts'
import type { GivenValue } from './settings.ts'

/** The files that settings name: reads them, and records a fingerprint of each by which a change is noticed. */
export class SettingFiles {
  readonly fingerprints = new Map<string, string>()
  readonly #problems: ConfigProblem[]

  constructor(problems: ConfigProblem[]) {
    this.#problems = problems
  }

  /** @returns null where the file cannot be read, which is then noted as a problem */
  readText({ source }: GivenValue, file: string, path: string): string | null {
    try {
      const bytes = readFileSync(file)
      this.fingerprints.set(file, fingerprintFile(bytes))
      return bytes.toString('utf8').trim()
    } catch (error) {
      const problem = `names a file that cannot be read: ${fileErrorText(error)}`
      this.#problems.push({ source, problem, path })
      return null
    }
  }

  /** For a file that is read later, by what uses it. */
  watch(file: string): void {
    try {
      this.fingerprints.set(file, fingerprintFile(readFileSync(file)))
    } catch (error) {
      this.fingerprints.set(file, fingerprintFailure(error))
    }
  }
}

function fingerprintFile(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'hex')
}

/** A file that cannot be read counts as changed once it can. */
function fingerprintFailure(error: unknown): string {
  return `unreadable: ${errorCode(error) ?? 'unknown'}`
}

/** A read that takes longer counts as failed. */
const READ_DEADLINE_MS = 5_000

/** By path, a fingerprint of the content that was last read. */
export type Fingerprints = ReadonlyMap<string, string>

/**
 * Compares contents: Kubernetes swaps the directory of a mounted file, and editors replace files. A watch on the file would
 * miss both.
 * @returns the files whose content has changed
 */
export async function findChangedFiles(known: Fingerprints): Promise<ReadonlyMap<string, string>> {
  const reads = [...known].map(
    async ([file, before]) => [file, before, await fingerprintOfFile(file)] as const,
  )
  const found = await Promise.all(reads)
  return new Map(found.flatMap(([file, before, now]) => (before === now ? [] : [[file, now] as const])))
}

async function fingerprintOfFile(file: string): Promise<string> {
  try {
    return fingerprintFile(await readFile(file, { signal: AbortSignal.timeout(READ_DEADLINE_MS) }))
  } catch (error) {
    return fingerprintFailure(error)
  }
}

/** Without the path: by mistake it may be the secret itself. */
export function fileErrorText(error: unknown): string {
  const message = error instanceof Error ? error.message : ''
  return /^[A-Z]+: [^,]*/.exec(message)?.[0] ?? 'it is not a file name'
}

/**
 * Reads a file that a setting names.
 * @throws SettingError that names the setting, if it cannot be read
 */
export function readNamedFile(file: string, setting: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new SettingError(`${setting} names a file that cannot be read: ${fileErrorText(error)}`)
  }
}

/** What a TLS connection trusts: nothing of its own if no file is named. @throws SettingError if the file holds no certificate */
export function readAuthorities(file: string | undefined, setting: string): { readonly ca?: string } {
  if (file === undefined) return {}
  const ca = readNamedFile(file, setting)
  requireAuthorities(ca, setting)
  return { ca }
}

interface CertificateFiles {
  readonly certFile?: string | undefined
  readonly keyFile?: string | undefined
}

/**
 * By what one end of a TLS connection proves who it is; null if no files are named.
 * @param section of the settings that name them
 * @throws StartError if they cannot be used together
 */
export function readCertificate(
  { certFile, keyFile }: CertificateFiles,
  section: string,
): { readonly cert: string; readonly key: string } | null {
  if (certFile === undefined || keyFile === undefined) return null
  const cert = readNamedFile(certFile, `${section}.certFile`)
  const key = readNamedFile(keyFile, `${section}.keyFile`)
  requirePair(cert, key, `${section}.certFile`)
  return { cert, key }
}
