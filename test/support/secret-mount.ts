import { mkdirSync, mkdtempSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Files as Kubernetes mounts a Secret: each name is a link into `..data`, which is a link to a directory of its time; a
 * change is a new directory, and the link to it put in the old one's place in one step.
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

  /** Puts these in place of what they were, all at once. */
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
