import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from './free-port.ts'
import { unprivilegedUser } from './postgres-programs.ts'
import { end, ready } from './ready.ts'

const PROGRAM = '/usr/sbin/pgbouncer'

export type PoolMode = 'session' | 'transaction' | 'statement'

/** A real PgBouncer with its default settings, but for its pool mode, in front of every database of a server. */
export class PgBouncer {
  readonly #process: ChildProcess
  readonly #directory: string
  readonly #port: number

  private constructor(process: ChildProcess, directory: string, port: number) {
    this.#process = process
    this.#directory = directory
    this.#port = port
  }

  /** @param serverUrl an address of the server, with the user and password that clients have, too */
  static async start(
    serverUrl: string,
    mode: PoolMode,
    settings: Readonly<Record<string, string>> = {},
  ): Promise<PgBouncer> {
    const { hostname, port: serverPort, username, password } = new URL(serverUrl)
    const directory = mkdtempSync(join(tmpdir(), 'postern-pgbouncer-'))
    const port = await freePort()
    const users = join(directory, 'users.txt')
    const file = join(directory, 'pgbouncer.ini')
    writeFileSync(users, `"${username}" "${password}"\n`)
    const all = {
      listen_addr: '127.0.0.1',
      listen_port: String(port),
      unix_socket_dir: '',
      auth_type: 'scram-sha-256',
      auth_file: users,
      pool_mode: mode,
      ...settings,
    }
    const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
    const databases = `[databases]\n* = host=${hostname} port=${serverPort}\n`
    writeFileSync(file, `${databases}[pgbouncer]\n${lines.join('\n')}\n`)
    const owner = unprivilegedUser()
    chmodSync(directory, 0o700)
    for (const path of [directory, users, file]) if (owner !== null) chownSync(path, owner.uid, owner.gid)
    const started = spawn(PROGRAM, ['-q', file], { ...owner, stdio: 'ignore', cwd: '/' })
    const pooler = new PgBouncer(started, directory, port)
    return ready(pooler, started, () => pooler.#answers(serverUrl))
  }

  /** The same database through the pooler. */
  urlOf(direct: string): string {
    const url = new URL(direct)
    url.port = String(this.#port)
    return url.href
  }

  async stop(): Promise<void> {
    await end(this.#process)
    rmSync(this.#directory, { recursive: true, force: true })
  }

  async #answers(serverUrl: string): Promise<boolean> {
    const client = new pg.Client({ connectionString: this.urlOf(serverUrl) })
    client.on('error', () => {})
    try {
      await client.connect()
      await client.query('select 1')
      return true
    } catch {
      return false
    } finally {
      await client.end().catch(() => {})
    }
  }
}
