import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Parts } from '../support/parts.ts'
import type { RecordingUpstream } from '../support/recording-upstream.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { CURL, has, JQ, POSTGRES } from '../support/tools.ts'
import { INSTALLATION_PAGES } from './command-pages.ts'
import { blocksOf, Installation } from './installation.ts'
import { saveOldKeys } from './old-keys.ts'
import { BACKUP, DRILL_KEYS, drill, drillPostgres, PG_TOOLS, POSTERN_TOOL } from './restore-drill.ts'

const SECRET = /^wsk_\w+$/

const parts = new Parts()
let redis: RedisServer
let upstream: RecordingUpstream
beforeAll(async () => {
  redis = await parts.redis()
  upstream = await parts.upstream()
})
afterAll(() => parts.stop())
beforeEach(() => redis.admin.flushall())

describe.skipIf(![CURL, JQ].every(has))('without Kubernetes', () => {
  test('the blocks of each page work as they are written', async () => {
    const installation = await Installation.start({ redis, upstream })
    saveOldKeys(installation.oldKeys)
    const outputs = new Map<string, string>()
    const [, ...pages] = INSTALLATION_PAGES.filter(page => page !== BACKUP)
    for (const page of pages) outputs.set(page, (await installation.follow(blocksOf(page))).join('\n'))

    expect(outputs.get('docs/cli.md')).toContain('importer')
    expect(JSON.parse(outputs.get('docs/integrators.md') ?? '')).toMatchObject({ workspaceId: 'ws_1' })
    expect(outputs.get('docs/admin-api.md')).toMatch(/^ {2}"name": "reports",$[\s\S]*^ {2}"name": "ci",$/m)
    expect(outputs.get('docs/operate/audit.md')).toMatch(
      /The audit chain is intact.*The given head is in the chain/s,
    )
    const [doctor = '', found = ''] = (outputs.get('docs/operate/troubleshooting.md') ?? '').split(/(?=^\{)/m)
    expect(doctor).toMatch(
      /^ok {6}key service .*signing secrets agree$[\s\S]*^ok {6}database .*schema up to date$/m,
    )
    expect(doctor).not.toContain('FAILED')
    expect(JSON.parse(found)).toMatchObject({
      status: 401,
      reason: 'key_missing',
    })
    expect(outputs.get('docs/operate/rotate-secrets.md')).toMatch(/^key_\w+\nreports\nkey_\w+\nimporter$/m)
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

describe.skipIf(![CURL, JQ].every(has))('a restored SQLite database', () => {
  test('gives the statuses of the restore drill', async () => {
    await drill(await Installation.start({ redis, upstream }), POSTERN_TOOL, true)
  })
})

describe.skipIf(![CURL, JQ, POSTGRES].every(has))('a restored PostgreSQL database', () => {
  test('gives the statuses of the drill with its own tools', () =>
    drillPostgres({ redis, upstream }, PG_TOOLS, false))
})

test('each block of the backup page is for a database, for Redis or for the keys of the drill', () => {
  const known = [POSTERN_TOOL, PG_TOOLS, /redis-cli/, DRILL_KEYS]
  expect(blocksOf(BACKUP).filter(block => !known.some(tool => tool.test(block)))).toEqual([])
})
