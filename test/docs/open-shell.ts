import { once } from 'node:events'
import { onTestFinished } from 'vitest'
import { endGroup, programsFolder, startShell } from './shell-blocks.ts'

const SEPARATOR = '\u001e'

/** A shell that stays open between blocks, as a reader's does who has put `postern` on the path. It ends at the first command that fails. */
export class OpenShell {
  readonly #shell: ReturnType<typeof startShell>
  readonly #closed: Promise<unknown>
  #stdout = ''
  #stderr = ''
  #onOutput = () => {}

  constructor(env: Readonly<Record<string, string>>) {
    this.#shell = startShell(null, env)
    this.#closed = once(this.#shell, 'close')
    this.#shell.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text
      this.#onOutput()
    })
    this.#shell.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    this.#shell.on('exit', () => this.#onOutput())
    this.#shell.stdin.write(`set -euo pipefail\nPATH="${programsFolder()}:$PATH"\n`)
    onTestFinished(() => this.end())
  }

  /** @returns standard output of the block @throws if one of its commands fails */
  async run(block: string): Promise<string> {
    this.#stdout = ''
    const output = new Promise<string>((resolve, reject) => {
      this.#onOutput = () => {
        if (this.#stdout.endsWith(SEPARATOR)) resolve(this.#stdout.slice(0, -1))
        else if (this.#shell.exitCode !== null)
          reject(new Error(`This block failed:\n${block}\n${this.#stdout}\n${this.#stderr}`))
      }
    })
    // A command of the block must not read the next block.
    this.#shell.stdin.write(`{\n${block}\n} </dev/null\nprintf '${SEPARATOR}'\n`)
    return output
  }

  /** Ends the shell and all that it has started. */
  async end(): Promise<void> {
    endGroup(this.#shell.pid)
    await this.#closed
  }
}
