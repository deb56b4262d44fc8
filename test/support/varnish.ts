import { type ChildProcess, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { end, ready } from './ready.ts'

/** It compiles its configuration with a C compiler. */
const START_DEADLINE_MS = 20_000

/**
 * `careful` is Varnish with its defaults: it passes requests with an Authorization field. `greedy` also stores their
 * responses, which a shared cache must not do by itself (RFC 9111, section 3.5), and obeys their cache fields.
 */
export type Temper = 'careful' | 'greedy'

/** Debian's Varnish in front of a gateway. */
export class Varnish {
  readonly url: string
  readonly #process: ChildProcess

  private constructor(url: string, started: ChildProcess) {
    this.url = url
    this.#process = started
  }

  static async start(directory: string, gatewayUrl: string, temper: Temper): Promise<Varnish> {
    const port = await freePort()
    const file = join(directory, `${temper}.vcl`)
    await writeFile(file, describe(new URL(gatewayUrl).port, temper))
    // Runs as the user of the tests, who owns the directory.
    const words = ['-j', 'none', '-F', '-a', `127.0.0.1:${port}`, '-f', file, '-s', 'malloc,16m']
    const started = spawn('varnishd', [...words, '-n', join(directory, temper)], { stdio: 'ignore' })
    const url = `http://127.0.0.1:${port}`
    const answers = () =>
      fetch(url).then(
        () => true,
        () => false,
      )
    return ready(new Varnish(url, started), started, answers, START_DEADLINE_MS)
  }

  async stop(): Promise<void> {
    await end(this.#process, 'SIGTERM')
  }
}

function describe(port: string, temper: Temper): string {
  const greed = 'sub vcl_recv { if (req.method == "GET") { return (hash); } }\n'
  return `vcl 4.1;\nbackend gateway { .host = "127.0.0.1"; .port = "${port}"; }\n${temper === 'greedy' ? greed : ''}`
}
