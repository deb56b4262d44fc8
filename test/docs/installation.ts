import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../support/free-port.ts'
import type { RecordingUpstream } from '../support/recording-upstream.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'
import { OpenShell } from './open-shell.ts'
import { shellBlocks, withPorts } from './shell-blocks.ts'

const CLI_ENVIRONMENT =
  'export POSTERN_CONSOLE_URL=http://127.0.0.1:8081 POSTERN_ADMIN_TOKEN_FILE="$HOME/.config/postern/admin-token"'

type Plane = 'console' | 'gateway'

/** The blocks of a page that run without a cluster or a registry. */
export const blocksOf = (page: string): string[] =>
  shellBlocks(page)
    .filter(({ needs }) => needs === null)
    .map(({ text }) => text)

export interface Surroundings {
  readonly redis: RedisServer
  readonly upstream: RecordingUpstream
  /** In place of SQLite. */
  readonly databaseUrl?: string
  /** Further variables of the reader's shells. */
  readonly env?: Readonly<Record<string, string>>
}

/** Console and gateway as a reader of docs/operate/install.md starts them, in a home directory of their own. */
export class Installation {
  readonly #ports: ReadonlyMap<string, number>
  readonly #env: Readonly<Record<string, string>>
  readonly #files: string
  /** The shell that started the processes. */
  readonly #shell: OpenShell

  private constructor(ports: ReadonlyMap<string, number>, env: Readonly<Record<string, string>>) {
    const home = temporaryDirectory()
    this.#ports = ports
    this.#files = join(home, '.config/postern')
    this.#env = { ...env, HOME: home, TMPDIR: temporaryDirectory() }
    this.#shell = new OpenShell(this.#env)
  }

  static async start({ redis, upstream, databaseUrl, env }: Surroundings): Promise<Installation> {
    const ports = new Map([
      ['3000', Number(new URL(upstream.url).port)],
      ['6379', redis.port],
    ])
    for (const documented of ['8080', '8081', '8082', '8090', '9090', '9091', '9092'])
      ports.set(documented, await freePort())
    const installation = new Installation(ports, { ...settingsFor(ports), ...env })
    const [secrets = '', ...others] = blocksOf('docs/operate/install.md')
    await installation.#shell.run(secrets)
    if (databaseUrl !== undefined)
      writeFileSync(join(installation.#files, 'database-url'), `${databaseUrl}\n`)
    for (const block of others) await installation.#run(block)
    return installation
  }

  #run(block: string): Promise<string> {
    return this.#shell.run(withPorts(block, this.#ports))
  }

  /** Runs blocks in a new shell. @returns the output of each */
  async follow(blocks: readonly string[]): Promise<string[]> {
    const shell = new OpenShell(this.#env)
    const outputs: string[] = []
    for (const block of blocks) outputs.push(await shell.run(withPorts(block, this.#ports)))
    await shell.end()
    return outputs
  }

  /** Runs `postern keys` with these arguments. */
  async keys(args: string): Promise<string> {
    const [output = ''] = await this.follow([`${CLI_ENVIRONMENT}\npostern keys ${args}`])
    return output.trim()
  }

  async stop(plane: Plane): Promise<void> {
    await this.#run(`kill "$${plane}"; wait "$${plane}" || true`)
    const readyz = `http://127.0.0.1:${this.#ports.get(plane === 'console' ? '9090' : '9091')}/readyz`
    await until(`the ${plane} has ended`, () =>
      fetch(readyz).then(
        () => false,
        () => true,
      ),
    )
  }

  async startAgain(plane: Plane): Promise<void> {
    const block = blocksOf('docs/operate/install.md').find(
      text => text.startsWith(`${plane}=`) || text.includes(`\n${plane}=`),
    )
    if (block === undefined) throw new Error(`docs/operate/install.md does not start the ${plane}`)
    await this.#run(block)
  }

  /** @returns the gateway's answer to a request for the description of this key */
  async describe(key: string): Promise<{ status: number; keyId: string | undefined }> {
    const url = `http://127.0.0.1:${this.#ports.get('8080')}/api/v1/auth`
    const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
    const { keyId } = (await response.json()) as { keyId?: string }
    return { status: response.status, keyId }
  }

  /** Where the page about migration expects the files of other systems. */
  get oldKeys(): string {
    return join(this.#files, 'old-keys')
  }

  read(name: string): string {
    return readFileSync(join(this.#files, name), 'utf8')
  }
}

function settingsFor(ports: ReadonlyMap<string, number>): Record<string, string> {
  return {
    POSTERN_GATEWAY_PORT: String(ports.get('8080')),
    POSTERN_CONSOLE_PORT: String(ports.get('8081')),
    POSTERN_CONSOLE_INTERNAL_PORT: String(ports.get('8082')),
    POSTERN_OPS_PORT: String(ports.get('9090')),
    POSTERN_DRAIN_DELAY_MS: '0',
  }
}
