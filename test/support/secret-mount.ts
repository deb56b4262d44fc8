import { mkdirSync, mkdtempSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Files as Kubernetes mounts a Secret: each name links into `..data`, which links to a dated directory. An update
 * creates a new directory and replaces the `..data` link atomically.
 */
export class SecretMount {
  readonly directory = mkdtempSync(join(tmpdir(), 'postern-secret-'))
  #generation = 0
  #files: Readonly<Record<string, string>> = {}

  constructor(files: Readonly<Record<string, string>>) {
    this.swap(files)
    for (const name of Object.keys(files)) symlinkSync(join('..data', name), join(this.directory, name))
  }

  file(name: string): string {
    return join(this.directory, name)
  }

  /** Replaces all files atomically. */
  swap(files: Readonly<Record<string, string>>): void {
    this.#files = { ...this.#files, ...files }
    const next = `..generation_${++this.#generation}`
    mkdirSync(join(this.directory, next))
    for (const [name, text] of Object.entries(this.#files)) {
      writeFileSync(join(this.directory, next, name), text)
    }
    const data = join(this.directory, '..data')
    const before = this.#generation === 1 ? null : readlinkSync(data)
    symlinkSync(next, `${data}_tmp`)
    renameSync(`${data}_tmp`, data)
    if (before !== null) rmSync(join(this.directory, before), { recursive: true })
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }
}
