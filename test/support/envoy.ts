import { type ChildProcess, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { pythonEnvironment } from './python-environment.ts'
import { end, ready } from './ready.ts'

/** The command that runs Envoy with a configuration. */
export function envoyCommand(file: string): readonly string[] {
  // The package replaces this process by Envoy.
  const program = [join(pythonEnvironment('envoy'), 'python3'), '-m', 'envoy._main']
  return [...program, '-c', file, '--concurrency', '1', '--disable-hot-restart', '-l', 'error']
}

/** Envoy in front of a gateway. */
export class Envoy {
  readonly #process: ChildProcess

  private constructor(started: ChildProcess) {
    this.#process = started
  }

  /** @param url where its configuration lets it listen */
  static async start(directory: string, configuration: object, url: string): Promise<Envoy> {
    const file = join(directory, 'envoy.yaml')
    await writeFile(file, stringify(configuration))
    const [program = '', ...words] = envoyCommand(file)
    const started = spawn(program, words, { stdio: ['ignore', 'ignore', 'inherit'] })
    return ready(new Envoy(started), started, () =>
      fetch(url).then(
        () => true,
        () => false,
      ),
    )
  }

  async stop(): Promise<void> {
    await end(this.#process)
  }
}
