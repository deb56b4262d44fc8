/** What encrypts and authenticates the connection. */
export interface PostgresTls {
  readonly mode: 'require' | 'verify-ca' | 'verify-full' | 'no-verify'
  /** Names of files. */
  readonly rootCertFile: string | null
  readonly certFile: string | null
  readonly keyFile: string | null
}

/** A postgres: address. What it leaves out, the driver takes from `PGUSER`, `PGPASSWORD`, `PGDATABASE`, `PGPORT` or `PGSSLMODE`. */
interface PostgresAddress {
  /** A name, an IP address, or the directory of a Unix socket. */
  readonly host: string
  readonly port: number | null
  readonly user: string | null
  readonly password: string | null
  readonly database: string | null
  /** Null without TLS; undefined where the address does not say. */
  readonly tls: PostgresTls | null | undefined
  /** Command-line options for the session, such as `-c search_path=postern`. */
  readonly options: string | null
}

/** Says which part is wrong, completes the sentence "database.url …", and repeats no value. */
class Problem extends Error {}

const SCHEME = /^postgres(?:ql)?:/i
const ADDRESS = /^postgres(?:ql)?:\/\/(?:([^/?]*)@)?([^/?@]*)(?:\/([^?]*))?(?:\?(.*))?$/i
const HOST = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))?(?::(\d*))?$/i
const TLS_MODES = ['disable', 'require', 'verify-ca', 'verify-full', 'no-verify'] as const
const PARAMETERS = ['host', 'port', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'options'] as const

const SEVERAL_HOSTS =
  'names several hosts, and the console connects to one: put an address in front that leads to the primary (docs/operate/postgresql.md)'
const ESCAPES = 'write / ? # @ in user or password as %2F %3F %23 %40'
const OWN_LIMITS = 'has no effect: the console sets its own time limits'
const LOGIN_PLACE =
  'is not read: write user and password before the host, as in postgres://USER:PASSWORD@HOST/DATABASE'

/** Parameters of other drivers. Others are refused without a reason. */
const REFUSED: Readonly<Record<string, string>> = {
  target_session_attrs: `has no effect: the console uses a primary only. With several servers, put an address in front that leads to it (docs/operate/postgresql.md)`,
  application_name: 'has no effect: consoles recognize each other by theirs',
  statement_timeout: OWN_LIMITS,
  lock_timeout: OWN_LIMITS,
  idle_in_transaction_session_timeout: OWN_LIMITS,
  query_timeout: OWN_LIMITS,
  connect_timeout: OWN_LIMITS,
  user: LOGIN_PLACE,
  password: LOGIN_PLACE,
  dbname: 'is not read: write the database behind the host, as in postgres://USER:PASSWORD@HOST/DATABASE',
  ssl: 'is not read: use sslmode',
  pgbouncer: 'has no effect: the console recognizes a pooler by itself',
}

export function isPostgresAddress(text: string): boolean {
  return SCHEME.test(text)
}

/** @returns null for an address that can be used; else what is wrong with it, which completes "database.url …" */
export function problemOfPostgresAddress(text: string): string | null {
  try {
    readPostgresAddress(text)
    return null
  } catch (error) {
    if (error instanceof Problem) return error.message
    throw error
  }
}

/** @throws if `problemOfPostgresAddress` names a problem */
export function readPostgresAddress(text: string): PostgresAddress {
  if (/[#\s]/.test(text)) throw new Problem('has a # or white space in it: write # as %23, a blank as %20')
  const match = ADDRESS.exec(text)
  if (match === null) throw new Problem(`must be postgres://USER:PASSWORD@HOST/DATABASE; ${ESCAPES}`)
  const [, login, hosts = '', database = '', query = ''] = match
  // The rest of a password, which must not be shown as the name of a parameter.
  if (query.includes('@')) throw new Problem(`has an @ behind the ?; ${ESCAPES}`)
  const parameters = readParameters(query)
  const [user = '', ...password] = (login ?? '').split(':')
  const target = readTarget(hosts, parameters)
  return {
    ...target,
    user: decode(user) || null,
    password: decode(password.join(':')) || null,
    database: decode(database) || null,
    tls: readTls(parameters, target.host.startsWith('/')),
    options: parameters.get('options') ?? null,
  }
}

type Parameter = (typeof PARAMETERS)[number]
type Parameters = ReadonlyMap<Parameter, string>

function readParameters(query: string): Parameters {
  const found = new Map<Parameter, string>()
  for (const [name, value] of new URLSearchParams(query)) {
    const known = PARAMETERS.find(parameter => parameter === name)
    if (known === undefined) throw new Problem(problemOfParameter(name))
    if (found.has(known)) throw new Problem(`has the parameter ${known} twice`)
    found.set(known, value)
  }
  return found
}

function problemOfParameter(name: string): string {
  const reason = Object.hasOwn(REFUSED, name) ? REFUSED[name] : undefined
  const shown =
    reason === undefined && !/^[a-z][a-z_]{0,40}$/i.test(name) ? 'a parameter' : `the parameter ${name}`
  return `has ${shown}, which ${reason ?? `has no effect; those with one are ${PARAMETERS.join(', ')}`}`
}

function readTarget(hosts: string, parameters: Parameters): Pick<PostgresAddress, 'host' | 'port'> {
  const named = parameters.get('host')
  if (named !== undefined && hosts !== '')
    throw new Problem('names a host twice: before the path, and as the parameter host')
  if (decode(hosts).includes(',') || named?.includes(',')) throw new Problem(SEVERAL_HOSTS)
  const match = HOST.exec(hosts)
  if (match === null) throw new Problem(`has a host or port that is malformed; ${ESCAPES}`)
  const [, address, name, port = ''] = match
  const host = named ?? address ?? decode(name ?? '')
  if (host === '') {
    throw new Problem(
      'names no host; for a socket, write postgres:///DATABASE?host=/DIRECTORY or postgres://%2FDIRECTORY/DATABASE',
    )
  }
  if (port !== '' && parameters.has('port')) throw new Problem('names a port twice')
  return { host, port: parsePort(parameters.get('port') ?? port) }
}

function parsePort(text: string): number | null {
  if (text === '') return null
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535)
    throw new Problem('has a port that is not from 1 to 65535')
  return port
}

function readTls(parameters: Parameters, isSocket: boolean): PostgresAddress['tls'] {
  const files = {
    rootCertFile: parameters.get('sslrootcert') ?? null,
    certFile: parameters.get('sslcert') ?? null,
    keyFile: parameters.get('sslkey') ?? null,
  }
  const hasFiles = Object.values(files).some(file => file !== null)
  const given = parameters.get('sslmode')
  const mode = given === undefined ? undefined : TLS_MODES.find(known => known === given)
  if (given !== undefined && mode === undefined) {
    throw new Problem(
      `has an sslmode that does not say whether the connection is encrypted; it must be one of ${TLS_MODES.join(', ')}`,
    )
  }
  if (isSocket && (hasFiles || (mode !== undefined && mode !== 'disable'))) {
    throw new Problem(
      'asks for TLS, which PostgreSQL does not speak on a socket: leave sslmode and its files out',
    )
  }
  if (isSocket) return null
  if (mode === 'disable' && hasFiles)
    throw new Problem('has sslmode=disable, with which certificates have no effect')
  if ((files.certFile === null) !== (files.keyFile === null)) {
    throw new Problem('has one of sslcert and sslkey: set both or neither')
  }
  if (mode === 'verify-ca' && files.rootCertFile === null) {
    throw new Problem(
      'has sslmode=verify-ca, which needs sslrootcert: without it, a certificate of a public CA for another name would be accepted',
    )
  }
  if (mode === 'disable') return null
  if (mode === undefined && !hasFiles) return undefined
  return { mode: mode ?? 'verify-full', ...files }
}

/** A % that escapes nothing stays, as the driver reads it. */
function decode(text: string): string {
  try {
    return text.replace(/(?:%[0-9a-f]{2})+/gi, decodeURIComponent)
  } catch {
    throw new Problem('has an escape (%) that is not UTF-8')
  }
}
