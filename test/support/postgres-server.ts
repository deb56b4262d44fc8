import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { openDatabase } from '../../src/console/platform/open-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { freePort } from './free-port.ts'
import { clusterTemplate } from './postgres-cluster.ts'
import { postgresPrograms, unprivilegedUser } from './postgres-programs.ts'
import { end, isRunning, readyOrStopped } from './ready.ts'
import { until } from './until.ts'

/** A real PostgreSQL: the server at POSTERN_TEST_DATABASE_URL, or a temporary one. */
export class PostgresServer {
  readonly #adminUrl: string
  readonly #process: ChildProcess | null
  readonly #directory: string | null
  readonly #databases: string[] = []
  /** One session creates all databases: the start of another takes as long as what it does. */
  readonly #creator: pg.Pool
  #migrated: Promise<string> | null = null
  #isFrozen = false

  private constructor(adminUrl: string, process: ChildProcess | null, directory: string | null) {
    this.#adminUrl = adminUrl
    this.#process = process
    this.#directory = directory
    this.#creator = new pg.Pool({
      connectionString: adminUrl,
      max: 1,
      idleTimeoutMillis: 0,
      allowExitOnIdle: true,
    })
    this.#creator.on('error', () => {})
  }

  /** @param settings of a temporary one, which otherwise waits for no disk */
  static async started(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
    const given = process.env['POSTERN_TEST_DATABASE_URL']
    return given === undefined || given === ''
      ? PostgresServer.temporary(settings)
      : new PostgresServer(given, null, null).untilItAnswers()
  }

  /** A server of the test's own, which it may kill. */
  static async temporary(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
    const server = await startCluster(settings)
    return readyOrStopped(server, () => server.untilItAnswers())
  }

  static ofCluster(url: string, process: ChildProcess, directory: string): PostgresServer {
    return new PostgresServer(url, process, directory)
  }

  /** Creates an empty database. @returns its URL */
  async database(): Promise<string> {
    return this.urlOf(await this.#create('template1'))
  }

  /** Copies a database that has the schema and no rows: migrating each one takes longer. @returns its URL */
  async migratedDatabase(): Promise<string> {
    this.#migrated ??= this.#migrate()
    return this.urlOf(await this.#create(await this.#migrated))
  }

  async #migrate(): Promise<string> {
    const name = await this.#create('template1')
    // A database with sessions cannot be copied.
    await (await openDatabase(this.urlOf(name), MIGRATIONS)).close()
    return name
  }

  async #create(template: string): Promise<string> {
    const name = `postern_test_${randomBytes(6).toString('hex')}`
    // Copying the files takes half as long as writing each page to the log first.
    await this.#creator.query(`create database ${name} template ${template} strategy file_copy`)
    this.#databases.push(name)
    return name
  }

  /** The URL of a database of this name. */
  urlOf(name: string): string {
    const url = new URL(this.#adminUrl)
    url.pathname = `/${name}`
    return url.href
  }

  /** Loses what was not sent to replicas. Its data stays until `stop`. */
  async kill(): Promise<void> {
    if (this.#process === null) throw new Error('The server is not one of the test')
    await end(this.#process)
  }

  /** Answers nothing, while its connections stay open. `stop` also ends it. */
  freeze(): void {
    this.#isFrozen = true
    for (const pid of this.#processes()) process.kill(pid, 'SIGSTOP')
  }

  thaw(): void {
    // Of others a session may end meanwhile.
    if (!this.#isFrozen) return
    this.#isFrozen = false
    for (const pid of this.#processes()) process.kill(pid, 'SIGCONT')
  }

  /** Makes a replica a primary. */
  async promote(): Promise<void> {
    await this.#run('select pg_promote(true)')
  }

  /** Of the server and its sessions. */
  #processes(): number[] {
    const pid = this.#process?.pid
    if (pid === undefined) throw new Error('The server is not one of the test')
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    return [pid, ...children.trim().split(/\s+/).map(Number)]
  }

  async stop(): Promise<void> {
    if (this.#process !== null && isRunning(this.#process)) this.thaw()
    await this.#creator.end()
    if (this.#process === null) {
      for (const name of this.#databases) await this.#run(`drop database if exists ${name} with (force)`)
      return
    }
    // At once: a checkpoint of every database would be for a directory that is deleted.
    await end(this.#process, 'SIGQUIT')
    if (this.#directory !== null) rmSync(this.#directory, { recursive: true, force: true, maxRetries: 10 })
  }

  async untilItAnswers(): Promise<PostgresServer> {
    const answers = () => {
      this.#requireRunning()
      return this.#run('select 1').then(
        () => true,
        () => false,
      )
    }
    await until('PostgreSQL answers', answers)
    return this
  }

  async untilItRefuses(): Promise<PostgresServer> {
    const refuses = () => {
      this.#requireRunning()
      return this.#run('select 1').then(
        () => false,
        (error: unknown) => error instanceof pg.DatabaseError && error.code === '57P03',
      )
    }
    await until('PostgreSQL says that it does not accept connections yet', refuses)
    return this
  }

  #requireRunning(): void {
    if (this.#process !== null && !isRunning(this.#process)) throw new Error('PostgreSQL has ended')
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
  const template = await clusterTemplate(programs)
  const directory = mkdtempSync(join(tmpdir(), 'postern-postgres-'))
  await promisify(execFile)('cp', ['-a', `${template.directory}/.`, directory])
  return startServer(programs, {
    directory,
    data: join(directory, 'data'),
    password: template.password,
    more,
  })
}

/**
 * A streaming replica that reads from this URL, such as that of a proxy before a temporary server.
 * @param more settings; with `hot_standby: 'off'` it admits no one until it is promoted
 */
export async function startReplica(
  primaryUrl: string,
  more: Readonly<Record<string, string>> = {},
): Promise<PostgresServer> {
  const programs = postgresPrograms()
  if (programs === null) throw new Error('The tests need a real PostgreSQL (Debian: postgresql)')
  const directory = mkdtempSync(join(tmpdir(), 'postern-replica-'))
  const owner = unprivilegedUser()
  if (owner !== null) chownSync(directory, owner.uid, owner.gid)
  const data = join(directory, 'data')
  const copy = [`--pgdata=${data}`, '--write-recovery-conf', '--checkpoint=fast', '--no-sync']
  const backUp = join(programs, 'pg_basebackup')
  try {
    await promisify(execFile)(backUp, [...copy, `--dbname=${primaryUrl}`], { ...owner, cwd: '/' })
  } catch (error) {
    rmSync(directory, { recursive: true, force: true })
    throw error
  }
  const { password } = new URL(primaryUrl)
  const server = await startServer(programs, { directory, data, password, more })
  return readyOrStopped(server, () =>
    more['hot_standby'] === 'off' ? server.untilItRefuses() : server.untilItAnswers(),
  )
}

interface ServerParts {
  readonly directory: string
  readonly data: string
  readonly password: string
  readonly more?: Readonly<Record<string, string>>
}

async function startServer(
  programs: string,
  { directory, data, password, more = {} }: ServerParts,
): Promise<PostgresServer> {
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
    ...unprivilegedUser(),
    stdio: 'ignore',
    cwd: '/',
  })
  const url = `postgres://postern:${password}@127.0.0.1:${port}/postgres`
  return PostgresServer.ofCluster(url, server, directory)
}
