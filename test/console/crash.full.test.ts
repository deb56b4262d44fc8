import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { decodeRecord, deriveRecordKey, recordKeyName } from '../../src/domain/wire.ts'
import type { AdminResponse } from '../support/admin-response.ts'
import { openDatabase } from '../support/open-database.ts'
import { Parts } from '../support/parts.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { someKey } from '../support/stored-keys.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'

const CLIENTS = 8
const MAX_ANSWERS = 60
/** Some twelve batches. */
const BULK_KEYS = 3000
const ROWS_AT_ONCE = 500
const DAY_MS = 86_400_000
const recordKeys = [deriveRecordKey(SIGNING_SECRET)]

interface Key {
  readonly id: string
  readonly version: number
  readonly state: string
  readonly replacedBy: string | null
  readonly revokedAt: string | null
}

/** Responses that clients received, and so may rely on. */
interface Acknowledged {
  /** By the id of the key. */
  readonly secrets: Map<string, string>
  readonly issued: Set<string>
  /** From the old key to the new one. */
  readonly rotated: Map<string, string>
  readonly revoked: Map<string, string>
}

const parts = new Parts()
let redis: RedisServer
beforeAll(async () => {
  redis = await parts.redis()
})
afterAll(() => parts.stop())

async function start(databaseUrl: string) {
  const running = await parts.console({
    POSTERN_DATABASE_URL: databaseUrl,
    POSTERN_REDIS_URL: redis.url,
    POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
    // The machine is busy with other tests: what is tested is not how fast Redis is.
    POSTERN_REDIS_COMMAND_TIMEOUT_MS: '2000',
  })
  const send = async (method: 'GET' | 'POST', path: string, body?: object) => {
    const { status, json } = await parts.admin(running, method, path, body)
    return { status, json: json as unknown as AdminResponse }
  }
  return { send, kill: () => running.process.stop('SIGKILL') }
}

type Running = Awaited<ReturnType<typeof start>>

/** Issues, rotates and revokes until the console is killed in the middle of it. */
async function loadUntilKilled(running: Running, acknowledged: Acknowledged): Promise<void> {
  let answersLeft = 1 + Math.floor(Math.random() * MAX_ANSWERS)
  let killed: Promise<unknown> | null = null
  const acknowledge = () => {
    if (--answersLeft === 0) killed = running.kill()
  }
  const live: string[] = []
  const issue = async () => {
    const { status, json } = await running.send('POST', '/workspaces/ws_1/keys', {
      name: 'a',
      scopes: ['files:read'],
    })
    expect(status).toBe(201)
    acknowledged.issued.add(json.key.id)
    acknowledged.secrets.set(json.key.id, json.secret)
    live.push(json.key.id)
  }
  const rotate = async (id: string) => {
    const { status, json } = await running.send('POST', `/keys/${id}/rotate`, {})
    expect(status).toBe(201)
    acknowledged.rotated.set(id, json.key.id)
    acknowledged.secrets.set(json.key.id, json.secret)
    live.push(json.key.id)
  }
  const revoke = async (id: string) => {
    const { status, json } = await running.send('POST', `/keys/${id}/revoke`)
    expect(status).toBe(200)
    acknowledged.revoked.set(id, json.key.revokedAt)
  }
  const client = async () => {
    while (killed === null) {
      const draw = Math.random()
      const id = draw < 0.4 ? undefined : live.pop()
      try {
        await (id === undefined ? issue() : draw < 0.7 ? rotate(id) : revoke(id))
      } catch (error) {
        // There is no response; the change may have been made or not.
        if (killed !== null || (error instanceof TypeError && error.message === 'fetch failed')) return
        throw error
      }
      acknowledge()
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  await killed
}

async function all(running: Running, path: string, name: 'keys' | 'entries'): Promise<unknown[]> {
  const found: unknown[] = []
  let cursor: string | undefined
  do {
    const more = cursor === undefined ? '' : `&cursor=${cursor}`
    const { json } = await running.send('GET', `${path}?limit=200${more}`)
    found.push(...json[name])
    cursor = json.cursor
  } while (cursor !== undefined)
  return found
}

async function expectNothingLost(running: Running, acknowledged: Acknowledged): Promise<void> {
  const keys = new Map(
    (await all(running, '/workspaces/ws_1/keys', 'keys')).map(key => [(key as Key).id, key as Key]),
  )
  const entries = (await all(running, '/workspaces/ws_1/audit', 'entries')).map(entry => {
    const { action, keyId, detail } = entry as {
      action: string
      keyId: string
      detail: { successor?: string }
    }
    return `${action} ${keyId} ${detail.successor ?? ''}`.trim()
  })
  for (const id of acknowledged.issued) expect(keys.has(id)).toBe(true)
  for (const [id, successor] of acknowledged.rotated) expect(keys.get(id)?.replacedBy).toBe(successor)
  for (const [id, at] of acknowledged.revoked) expect(keys.get(id)?.revokedAt).toBe(at)
  // Every change is audited, and nothing else is, also changes without a response.
  const done = [...keys.values()].flatMap(key => [
    ...([...keys.values()].some(other => other.replacedBy === key.id) ? [] : [`key.issued ${key.id}`]),
    ...(key.replacedBy === null ? [] : [`key.rotated ${key.id} ${key.replacedBy}`]),
    ...(key.revokedAt === null ? [] : [`key.revoked ${key.id}`]),
  ])
  expect(entries.toSorted()).toEqual(done.toSorted())
  for (const [id, secret] of acknowledged.secrets) {
    const digest = digestKey(secret)
    const decoded = decodeRecord((await redis.admin.get(recordKeyName(digest))) ?? '', digest, recordKeys)
    expect(decoded).toMatchObject({ ok: true, grant: { id, version: keys.get(id)?.version } })
  }
}

/** @param rounds how often a console is killed */
function describeCrashes(database: string, freshUrl: () => Promise<string>, rounds: number): void {
  test(`on ${database}, nothing that was answered is lost when the console is killed in the middle of work`, async () => {
    const url = await freshUrl()
    const acknowledged: Acknowledged = {
      secrets: new Map(),
      issued: new Set(),
      rotated: new Map(),
      revoked: new Map(),
    }
    for (let round = 0; round < rounds; round++) await loadUntilKilled(await start(url), acknowledged)
    const last = await start(url)
    const { reader, close } = await openDatabase(url)
    try {
      const pending = async () => (await reader.selectFrom('outbox').selectAll().execute()).length
      await until('all is announced', async () => (await pending()) === 0)
      const queued = async () => (await reader.selectFrom('audit_queue').selectAll().execute()).length
      await until('all is in the audit chain', async () => (await queued()) === 0)
      await expectNothingLost(last, acknowledged)
    } finally {
      await close()
      await last.kill()
    }
    expect(acknowledged.issued.size).toBeGreaterThan(0)
  })

  test(`on ${database}, revoking all keys goes on where it was when the console is killed halfway`, async () => {
    const url = await freshUrl()
    const { writer, reader, close } = await openDatabase(url)
    onTestFinished(close)
    await redis.admin.flushall()
    const keys = Array.from({ length: BULK_KEYS }, () => someKey({ expiresAtMs: Date.now() + DAY_MS }))
    for (let from = 0; from < keys.length; from += ROWS_AT_ONCE) {
      const rows = keys.slice(from, from + ROWS_AT_ONCE).map(key => toKeyRow(key, Date.now()))
      await writer.insertInto('keys').values(rows).execute()
    }
    const countRevoked = async () => {
      const rows = reader.selectFrom('keys').where('revoked_at_ms', 'is not', null)
      return (await rows.select('id').execute()).length
    }
    const first = await start(url)
    const revokeAll = (running: Running, query = '') =>
      running.send('POST', `/workspaces/ws_1/revoke-all${query}`)
    const cutOff = revokeAll(first).catch(() => 'cut off')
    await until('some keys are revoked', async () => (await countRevoked()) > 0)
    await first.kill()
    expect(await cutOff).toBe('cut off')
    const before = await countRevoked()
    expect(before).toBeLessThan(BULK_KEYS)

    const second = await start(url)
    onTestFinished(() => void second.kill())
    // A call answers after some seconds, and says whether some are left: on a busy machine it takes several.
    let [revoked, query] = [0, '']
    do {
      const { status, json } = await revokeAll(second, query)
      expect(status).toBe(200)
      revoked += json.revoked
      query = json.hasMore ? `?cursor=${json.cursor}` : ''
    } while (query !== '')
    expect(revoked).toBe(BULK_KEYS - before)
    const pending = async () => (await reader.selectFrom('outbox').selectAll().execute()).length
    await until('all is announced', async () => (await pending()) === 0)
    const entries = await reader.selectFrom('audit').select(['key_id', 'action']).execute()
    expect(new Set(entries.map(({ action }) => action))).toEqual(new Set(['key.revoked']))
    expect(entries.map(entry => entry.key_id).toSorted()).toEqual(
      keys.map(({ record }) => record.id).toSorted(),
    )
    for (const { digest } of keys) {
      const decoded = decodeRecord((await redis.admin.get(recordKeyName(digest))) ?? '', digest, recordKeys)
      expect(decoded).toMatchObject({ ok: true, grant: { version: 2 } })
    }
  })
}

describeCrashes('SQLite', async () => `sqlite:${join(temporaryDirectory(), 'keys.db')}`, 5)

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  describeCrashes('PostgreSQL', () => server.migratedDatabase(), 3)
})
