import { type ChildProcess, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { end, ready } from './ready.ts'

export interface Backend {
  readonly port: number
  /** Port that serves `/readyz`. */
  readonly opsPort: number
}

/** Debian's HAProxy in front of replicas, with readiness checks. It does not retry, so that no failure is hidden. */
export class Haproxy {
  readonly url: string
  readonly #process: ChildProcess

  private constructor(url: string, started: ChildProcess) {
    this.url = url
    this.#process = started
  }

  /** @param source its own address towards the replicas; it then adds the client's to `X-Forwarded-For` */
  static async start(directory: string, backends: readonly Backend[], source?: string): Promise<Haproxy> {
    const port = await freePort()
    const file = join(directory, `haproxy-${port}.cfg`)
    const naming = source === undefined ? [] : ['  option forwardfor', `  source ${source}`]
    await writeFile(file, `${describe(port, backends)}${naming.map(line => `${line}\n`).join('')}`)
    const started = spawn('haproxy', ['-db', '-q', '-f', file], { stdio: ['ignore', 'ignore', 'inherit'] })
    const url = `http://127.0.0.1:${port}`
    return ready(new Haproxy(url, started), started, () =>
      fetch(url).then(
        answer => answer.status !== 503,
        () => false,
      ),
    )
  }

  async stop(): Promise<void> {
    await end(this.#process)
  }
}

function describe(port: number, backends: readonly Backend[]): string {
  const servers = backends.map(
    (backend, index) => `  server replica${index} 127.0.0.1:${backend.port} check port ${backend.opsPort}`,
  )
  return `global
  nbthread 1
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  timeout check 1s
  retries 0
frontend public
  bind 127.0.0.1:${port}
  default_backend gateways
backend gateways
  balance roundrobin
  option httpchk GET /readyz
  http-check expect status 200
  default-server inter 100ms fall 1 rise 1
${servers.join('\n')}
`
}
