// Records what the database of a release holds, and the SQL statements that its console sends, for released-schema.full.test.ts.
// Usage: node test/console/released/record-release.ts COMMIT VERSION
import { execFileSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AdminResponse } from '../../support/admin-response.ts'
import { PosternProcess } from '../../support/postern-process.ts'
import { postgresPrograms } from '../../support/postgres-programs.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { RedisServer } from '../../support/redis-server.ts'
import { unpackProgram } from '../../support/release-before.ts'
import { SIGNING_SECRET } from '../../support/signing-secret.ts'
import { WebhookReceiver } from '../../support/webhook-receiver.ts'

const [commit = '', version = ''] = process.argv.slice(2)
const HERE = fileURLToPath(new URL('.', import.meta.url))
const TOKEN = 'admin-token-of-a-recorded-release'
/** What 0.1.0 calls it; KEY_SERVICE later. */
const KEY_SERVICE = 'ORIGIN'
const KEY_SERVICE_TOKEN = 'key-service-token-of-a-recorded-release'
const directory = mkdtempSync(join(tmpdir(), 'postern-record-'))
const program = unpackProgram(commit, directory)
const redis = await RedisServer.start()
const receiver = await WebhookReceiver.start()
const server = await PostgresServer.started()
/** The statements after the migrations: those are not sent again. */
async function recordStatements(databaseUrl: string, file: string): Promise<void> {
  const log = join(directory, 'statements')
  const env = {
    POSTERN_DATABASE_URL: databaseUrl,
    POSTERN_REDIS_URL: redis.url,
    POSTERN_ADMIN_TOKEN: TOKEN,
    [`POSTERN_${KEY_SERVICE}_TOKEN`]: KEY_SERVICE_TOKEN,
    POSTERN_CONSOLE_WEBHOOK_URL: receiver.url,
    POSTERN_CONSOLE_WEBHOOK_SECRET: SIGNING_SECRET.toString('base64'),
    POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
    POSTERN_CONSOLE_PORT: '0',
    POSTERN_OPS_PORT: '0',
    RECORDED_STATEMENTS: log,
    RECORDED_PROGRAM: program.at(-1) ?? '',
  }
  await (await PosternConsole.start(env)).stop()
  writeFileSync(log, '')
  const posternConsole = await PosternConsole.start(env)
  await useEverything(posternConsole)
  await posternConsole.stop()
  const statements = readFileSync(log, 'utf8').trim().split('\n')
  const kept = statements.filter(sql => /^"(?:with|select|insert|update|delete)\b/i.test(sql))
  writeFileSync(
    file,
    `${kept
      .filter(sql => !/kysely|pg_catalog|sqlite_master/.test(sql))
      .sort()
      .join('\n')}\n`,
  )
}

/** A console of the release, on its one port. */
class PosternConsole {
  readonly #process: PosternProcess
  readonly #url: string

  private constructor(process: PosternProcess, url: string) {
    this.#process = process
    this.#url = url
  }

  static async start(env: Readonly<Record<string, string>>): Promise<PosternConsole> {
    const [node = '', ...entry] = program
    const hook = ['--require', join(HERE, 'record-statements.cjs')]
    const process = new PosternProcess(['console'], env, [node, ...hook, ...entry])
    const { console } = await process.logged(({ msg }) => msg === 'listening')
    return new PosternConsole(process, String(console))
  }

  /** @throws unless the response is a success */
  async call(method: 'GET' | 'POST', path: string, body?: object, token = TOKEN): Promise<AdminResponse> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body && {
          'content-type': 'application/json',
          'idempotency-key': randomUUID(),
        }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return (text === '' ? {} : JSON.parse(text)) as AdminResponse
  }

  async stop(): Promise<void> {
    await this.#process.stop('SIGTERM')
  }
}

async function useEverything(console: PosternConsole): Promise<void> {
  const keys = '/admin/v1/workspaces/ws_1/keys'
  const issue = (name: string, more = {}) =>
    console.call('POST', keys, { name, scopes: ['files:read'], ...more })
  const active = await issue('active')
  const rotated = await issue('rotated', { expiresAt: new Date(Date.now() + 86_400_000).toISOString() })
  const revoked = await issue('revoked')
  await console.call('POST', `/admin/v1/keys/${rotated.key.id}/rotate`, { overlapSeconds: 3600 })
  await console.call('POST', `/admin/v1/keys/${revoked.key.id}/revoke`, {})
  await console.call('POST', '/admin/v1/workspaces/ws_2/keys', { name: 'other', scopes: ['workspace:read'] })
  const digest = createHash('sha256').update(active.secret).digest('hex')
  const gateway = { gateway: { id: 'gw-1', name: 'gateway-1' }, connected: true, leaving: false }
  const confirmed = [{ digest, version: 1 }]
  await console.call('POST', '/internal/v1/confirmations', { ...gateway, confirmed }, KEY_SERVICE_TOKEN)
  await console.call(
    'POST',
    '/internal/v1/usage',
    { used: { [active.key.id]: Date.now() - 60_000 } },
    KEY_SERVICE_TOKEN,
  )
  await console.call('GET', `/internal/v1/keys/${digest}`, undefined, KEY_SERVICE_TOKEN)
  await console.call('POST', '/internal/v1/lookups', { digests: [digest] }, KEY_SERVICE_TOKEN)
  await console.call(
    'POST',
    '/internal/v1/confirmations',
    { ...gateway, leaving: true, confirmed: [] },
    KEY_SERVICE_TOKEN,
  )
  await console.call('GET', `${keys}?limit=2`)
  await console.call('GET', `${keys}?cursor=${active.key.id}`)
  await console.call('GET', `/admin/v1/keys/${active.key.id}`)
  await console.call('GET', '/admin/v1/workspaces/ws_1/audit')
  await console.call('GET', '/admin/v1/workspaces/ws_1/deliveries')
}

try {
  const out = join(HERE, version)
  mkdirSync(out, { recursive: true })
  const file = join(directory, 'keys.db')
  await recordStatements(`sqlite:${file}`, join(out, 'sqlite.statements.jsonl'))
  writeFileSync(join(out, 'sqlite.sql'), execFileSync('sqlite3', [file, '.dump']))
  const url = await server.database()
  await recordStatements(url, join(out, 'postgres.statements.jsonl'))
  const dump = join(postgresPrograms() ?? '', 'pg_dump')
  const options = ['--inserts', '--no-owner', '--no-privileges', '--no-comments']
  const text = execFileSync(dump, [...options, url], { encoding: 'utf8' })
  // Commands of psql, comments and settings of the session are no part of the schema.
  const kept = text.split('\n').filter(line => !/^(?:\\|--|SET |SELECT pg_catalog\.set_config)|^$/.test(line))
  writeFileSync(join(out, 'postgres.sql'), `${kept.join('\n')}\n`)
} finally {
  await receiver.stop()
  await redis.stop()
  await server.stop()
  rmSync(directory, { recursive: true })
}
