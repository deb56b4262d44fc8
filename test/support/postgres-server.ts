import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from './free-port.ts'
import { postgresPrograms } from './postgres-programs.ts'
import { until } from './until.ts'

/** PostgreSQL refuses to run as root; Debian's package creates this user. */
const UNPRIVILEGED = 'postgres'

/** A real PostgreSQL: the server at POSTERN_TEST_DATABASE_URL, or a temporary one. */
export class PostgresServer {
  readonly #adminUrl: string
  readonly #process: ChildProcess | null
  readonly #directory: string | null
  readonly #databases: string[] = []

  private constructor(adminUrl: string, process: ChildProcess | null, directory: string | null) {
    this.#adminUrl = adminUrl
    this.#process = process
    this.#directory = directory
  }

  /** @param settings of a temporary one, which otherwise waits for no disk */
  static async started(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
    const given = process.env['POSTERN_TEST_DATABASE_URL']
    const server =
      given === undefined || given === ''
        ? await startCluster(settings)
        : new PostgresServer(given, null, null)
    await until('PostgreSQL answers', () =>
      server.#run('select 1').then(
        () => true,
        () => false,
      ),
    )
    return server
  }

  static ofCluster(url: string, process: ChildProcess, directory: string): PostgresServer {
    return new PostgresServer(url, process, directory)
  }

  /** Creates an empty database. @returns its URL */
  async database(): Promise<string> {
    const name = `postern_test_${randomBytes(6).toString('hex')}`
    await this.#run(`create database ${name}`)
    this.#databases.push(name)
    const url = new URL(this.#adminUrl)
    url.pathname = `/${name}`
    return url.href
  }

  async stop(): Promise<void> {
    if (this.#process === null) {
      for (const name of this.#databases) await this.#run(`drop database if exists ${name} with (force)`)
      return
    }
    if (this.#process.exitCode === null) {
      const exited = once(this.#process, 'exit')
      this.#process.kill('SIGINT')
      await exited
    }
    if (this.#directory !== null) rmSync(this.#directory, { recursive: true, force: true })
  }

  async #run(statement: string): Promise<void> {
    const client = new pg.Client({ connectionString: this.#adminUrl, connectionTimeoutMillis: 2000 })
    client.on('error', () => {})
    await client.connect()
    try {
      await client.query(statement)
    } finally {
      await client.end()
    }
  }
}

async function startCluster(more: Readonly<Record<string, string>>): Promise<PostgresServer> {
  const programs = postgresPrograms()
  if (programs === null) throw new Error('The tests need a real PostgreSQL (Debian: postgresql)')
  const directory = mkdtempSync(join(tmpdir(), 'postern-postgres-'))
  const password = randomBytes(12).toString('hex')
  const passwordFile = join(directory, 'password')
  writeFileSync(passwordFile, password)
  const owner = unprivilegedUser()
  for (const path of [directory, passwordFile]) if (owner !== null) chownSync(path, owner.uid, owner.gid)
  const data = join(directory, 'data')
  const authentication = ['--username=postern', `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
  const initdb = [`--pgdata=${data}`, '--no-sync', '--encoding=UTF8', '--locale=C.UTF-8', ...authentication]
  execFileSync(join(programs, 'initdb'), initdb, { ...owner, stdio: 'ignore', cwd: '/' })
  const port = await freePort()
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    port: String(port),
    ...more,
  }
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = spawn(join(programs, 'postgres'), ['-D', data, ...flags], {
    ...owner,
    stdio: 'ignore',
    cwd: '/',
  })
  const url = `postgres://postern:${password}@127.0.0.1:${port}/postgres`
  return PostgresServer.ofCluster(url, server, directory)
}

/** @returns null if the tests do not run as root */
function unprivilegedUser(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null
  const idOf = (flag: string) => Number(execFileSync('id', [flag, UNPRIVILEGED], { encoding: 'utf8' }))
  return { uid: idOf('-u'), gid: idOf('-g') }
}
