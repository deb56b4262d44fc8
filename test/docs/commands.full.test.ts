import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PostgresServer } from '../support/postgres-server.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { RedisServer } from '../support/redis-server.ts'
import { CURL, has, JQ, POSTGRES } from '../support/tools.ts'
import { INSTALLATION_PAGES } from './command-pages.ts'
import { blocksOf, Installation } from './installation.ts'
import { saveOldKeys } from './old-keys.ts'

const TIMEOUT_MS = 180_000
const BACKUP = 'docs/operate/backup.md'
const SECRET = /^wsk_\w+$/

let redis: RedisServer
let upstream: RecordingUpstream
beforeAll(async () => {
  redis = await RedisServer.start()
  upstream = await RecordingUpstream.start()
})
afterAll(async () => {
  await upstream.stop()
  await redis.stop()
})
beforeEach(() => redis.admin.flushall())

describe.skipIf(![CURL, JQ].every(has))('without Kubernetes', () => {
  test('the blocks of each page work as they are written', { timeout: TIMEOUT_MS }, async () => {
    const installation = await Installation.start({ redis, upstream })
    saveOldKeys(installation.oldKeys)
    const outputs = new Map<string, string>()
    const [, ...pages] = INSTALLATION_PAGES.filter(page => page !== BACKUP)
    for (const page of pages) outputs.set(page, (await installation.follow(blocksOf(page))).join('\n'))

    expect(outputs.get('docs/cli.md')).toContain('importer')
    expect(JSON.parse(outputs.get('docs/integrators.md') ?? '')).toMatchObject({ workspaceId: 'ws_1' })
    expect(JSON.parse(outputs.get('docs/admin-api.md') ?? '')).toMatchObject({ name: 'reports' })
    expect(JSON.parse(outputs.get('docs/admin-tokens.md') ?? '')).toMatchObject({ name: 'ci' })
    expect(outputs.get('docs/operate/audit.md')).toMatch(
      /The audit chain is intact.*The given head is in the chain/s,
    )
    expect(JSON.parse(outputs.get('docs/operate/troubleshooting.md') ?? '')).toMatchObject({
      status: 401,
      reason: 'key_missing',
    })
    expect(outputs.get('docs/operate/signing-secrets.md')).toMatch(/^key_\w+\nreports\nkey_\w+\nimporter$/m)
    const migrated = outputs.get('docs/migrate.md') ?? ''
    // Each was answered by a gateway, 200, to an old key.
    expect([...migrated.matchAll(/"workspaceId":"(\w+)"/g)].map(([, workspace]) => workspace)).toEqual([
      'kong_1',
      'tyk_1',
      'unkey_1',
      'unkey_3',
      'own_1',
    ])
    expect(migrated.match(/Imported \d keys?; 0 existed already; 0 invalid/g)).toHaveLength(4)
    for (const file of ['ws_1-importer', 'ws_2-reports'])
      expect(installation.read(`new-keys/${file}`).trim()).toMatch(SECRET)
  })
})

/**
 * The restore drill of docs/operate/backup.md.
 * @param tool the blocks that use it
 * @param takesOver whether the restore itself takes over revocations
 */
async function drill(installation: Installation, tool: RegExp, takesOver: boolean): Promise<void> {
  const blocks = blocksOf(BACKUP)
  const [backUp = '', restore = ''] = blocks.filter(block => tool.test(block))
  const emptyRedis = blocks.find(block => block.includes('redis-cli')) ?? ''
  const keys = [await installation.issue('a'), await installation.issue('b')]
  const statuses = async () => Promise.all(keys.map(async key => (await installation.describe(key)).status))
  const { keyId } = await installation.describe(keys[0] ?? '')
  await installation.follow([backUp])
  await installation.keys(`revoke ${keyId} --yes`)
  keys.push(await installation.issue('c'))
  expect(await statuses()).toEqual([401, 200, 200])

  await installation.stop('console')
  await installation.follow([restore])
  await installation.startAgain('console')
  expect(await statuses()).toEqual([401, 200, 200])
  if (!takesOver) await installation.keys(`revoke ${keyId} --yes`)
  await installation.follow([emptyRedis])
  await installation.keys('sync')
  await installation.stop('gateway')
  await installation.startAgain('gateway')
  expect(await statuses()).toEqual([401, 200, 401])
}

const POSTERN_TOOL = /database (?:backup|restore)/
const PG_TOOLS = /pg_dump|pg_restore/

describe.skipIf(![CURL, JQ].every(has))('a restored SQLite database', () => {
  test('gives the statuses of the restore drill', { timeout: TIMEOUT_MS }, async () => {
    await drill(await Installation.start({ redis, upstream }), POSTERN_TOOL, true)
  })
})

describe.skipIf(![CURL, JQ, POSTGRES].every(has))('a restored PostgreSQL database', () => {
  test.each([
    ['postern', POSTERN_TOOL, true],
    ['its own tools', PG_TOOLS, false],
  ] as const)(
    'gives the statuses of the drill with %s',
    { timeout: TIMEOUT_MS },
    async (_, tool, takesOver) => {
      const postgres = await PostgresServer.started()
      try {
        const databaseUrl = await postgres.database()
        const { hostname, port, username, password, pathname } = new URL(databaseUrl)
        const env = {
          PGHOST: hostname,
          PGPORT: port,
          PGUSER: username,
          PGDATABASE: pathname.slice(1),
          PGPASSWORD: password,
        }
        await drill(await Installation.start({ redis, upstream, databaseUrl, env }), tool, takesOver)
      } finally {
        await postgres.stop()
      }
    },
  )
})

test('each block of the backup page is for a database or for Redis', () => {
  const known = [POSTERN_TOOL, PG_TOOLS, /redis-cli/]
  expect(blocksOf(BACKUP).filter(block => !known.some(tool => tool.test(block)))).toEqual([])
})
