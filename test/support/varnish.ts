import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

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
    await until(
      'Varnish answers',
      () =>
        fetch(url).then(
          () => true,
          () => false,
        ),
      20_000,
    )
    return new Varnish(url, started)
  }

  async stop(): Promise<void> {
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGTERM')
    await exited
  }
}

function describe(port: string, temper: Temper): string {
  const greed = 'sub vcl_recv { if (req.method == "GET") { return (hash); } }\n'
  return `vcl 4.1;\nbackend gateway { .host = "127.0.0.1"; .port = "${port}"; }\n${temper === 'greedy' ? greed : ''}`
}
