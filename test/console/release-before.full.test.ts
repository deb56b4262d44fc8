import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../src/console/platform/database/open-database.ts'
import type { AdminResponse } from '../support/admin-response.ts'
import { PosternProcess, runPostern } from '../support/postern-process.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { FIRST_RELEASE, findReleaseBefore, unpackProgram } from '../support/release-before.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'

const TOKEN = 'admin-token-of-two-releases'
const KEYS = '/workspaces/ws_1/keys'
const before = findReleaseBefore()

describe.skipIf(before === null)('a console of the release before (skipped without its history)', () => {
  let redis: RedisServer
  let program: readonly string[]
  let directory: string
  beforeAll(async () => {
    redis = await RedisServer.start()
    directory = mkdtempSync(join(tmpdir(), 'postern-before-'))
    program = unpackProgram(before ?? '', directory)
  }, 180_000)
  afterAll(async () => {
    await redis.stop()
    rmSync(directory, { recursive: true })
  })

  const environment = (databaseUrl: string) => ({
    POSTERN_DATABASE_URL: databaseUrl,
    POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
  })

  async function start(databaseUrl: string, program?: readonly string[]) {
    // The first release has no internal listener, and refuses settings that it does not know.
    const hasInternal = program === undefined || before !== FIRST_RELEASE
    const env = {
      ...environment(databaseUrl),
      POSTERN_REDIS_URL: redis.url,
      POSTERN_ADMIN_TOKEN: TOKEN,
      POSTERN_REDIS_COMMAND_TIMEOUT_MS: '2000',
      POSTERN_CONSOLE_PORT: '0',
      POSTERN_OPS_PORT: '0',
      ...(hasInternal ? { POSTERN_CONSOLE_INTERNAL_PORT: '0' } : {}),
    }
    const console = new PosternProcess(['console'], env, program)
    onTestFinished(async () => void (await console.stop('SIGKILL')))
    const listening = await console.logged(({ msg }) => msg === 'listening')
    const send = async (method: 'GET' | 'POST', path: string, body?: object) => {
      const response = await fetch(`${listening['console']}/admin/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${TOKEN}`, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      })
      return { status: response.status, body: (await response.json()) as AdminResponse }
    }
    const issue = async (name: string) => {
      const { status, body } = await send('POST', KEYS, { name, scopes: ['files:read'] })
      expect([name, status]).toEqual([name, 201])
      return body.key.id
    }
    const stateOf = async (id: string) => (await send('GET', `/keys/${id}`)).body.key.state
    return { send, issue, stateOf, stop: () => console.stop('SIGKILL') }
  }

  async function expectItGoesOn(databaseUrl: string): Promise<void> {
    const old = await start(databaseUrl, program)
    const first = await old.issue('before the upgrade')
    const revoked = await old.issue('to revoke')
    await (await openDatabase(databaseUrl)).close()

    const second = await old.issue('during the upgrade')
    const listed = (await old.send('GET', KEYS)).body.keys.map(({ id }) => id)
    expect(listed.toSorted()).toEqual([first, revoked, second].toSorted())
    expect((await old.send('POST', `/keys/${revoked}/revoke`)).status).toBe(200)
    const rotated = await old.send('POST', `/keys/${first}/rotate`, {})
    expect(rotated.status).toBe(201)
    const states = [first, revoked, second].map(old.stateOf)
    expect(await Promise.all(states)).toEqual(['retiring', 'revoked', 'active'])
    await old.stop()

    const today = await start(databaseUrl)
    const ids = [first, revoked, second, rotated.body.key.id]
    expect(await Promise.all(ids.map(today.stateOf))).toEqual(['retiring', 'revoked', 'active', 'active'])
    expect((await today.send('POST', `/keys/${second}/revoke`)).status).toBe(200)
    await expectOnlySignedEntries(databaseUrl, today.send)
  }

  /** The release before signs no audit entries: nothing shows that a console wrote them. */
  async function expectOnlySignedEntries(
    databaseUrl: string,
    send: Awaited<ReturnType<typeof start>>['send'],
  ): Promise<void> {
    const { entries } = (await send('GET', '/workspaces/ws_1/audit')).body
    expect(entries.map(({ action }) => action)).toEqual(['key.revoked'])
    const verified = await runPostern(['audit', 'verify'], environment(databaseUrl))
    expect(verified.code).toBe(1)
    const inserted = [...verified.stdout.matchAll(/^inserted: entry \S+ (\S+) at .* is not in the chain$/gm)]
    expect(inserted.map(([, action]) => action).toSorted()).toEqual([
      ...['key.issued', 'key.issued', 'key.issued', 'key.revoked', 'key.rotated'],
    ])
    expect(verified.stdout).toContain('The audit chain is broken: 5 problems')
  }
  const goesOn =
    'issues, lists, revokes and rotates keys after a console of today has migrated the database under it'

  test(`on SQLite, ${goesOn}`, { timeout: 60_000 }, () =>
    expectItGoesOn(`sqlite:${join(temporaryDirectory(), 'keys.db')}`),
  )

  describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
    let server: PostgresServer
    beforeAll(async () => {
      server = await PostgresServer.started()
    })
    afterAll(() => server.stop())

    test(goesOn, { timeout: 60_000 }, async () => expectItGoesOn(await server.database()))
  })
})
