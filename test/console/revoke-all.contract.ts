import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { searchAudit } from '../../src/console/audit/rows.ts'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import { planRevocation } from '../../src/domain/key/key-life.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { startConsole } from '../support/console.ts'
import { readMessage } from '../support/messages.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository, replace } from '../support/repository.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

const REVOKE_ALL = '/admin/v1/workspaces/ws_1/revoke-all'
const LATER_MS = NOW_MS + 1000
/** Keys of one transaction. */
const AT_ONCE = { sqlite: 100, postgres: 250 } as const

/** @param freshUrl the address of a database without rows that a second connection sees */
export function describeRevokeAll(database: string, freshUrl: () => Promise<string>): void {
  const started = async (keys: readonly StoredKey[], announcer = new ScriptedAnnouncer()) => {
    const databaseUrl = await freshUrl()
    const { writer, close } = await openDatabase(databaseUrl)
    for (let from = 0; from < keys.length; from += 500) {
      const rows = keys.slice(from, from + 500).map(key => toKeyRow(key, NOW_MS))
      await writer.insertInto('keys').values(rows).execute()
    }
    await close()
    const time = { aheadMs: 0 }
    const clock = { wallMs: () => LATER_MS, monotonicMs: () => performance.now() + time.aheadMs }
    const running = await startConsole({ databaseUrl, parts: { clock, announcer } })
    const opened = await openDatabase(databaseUrl)
    const repository = createRepository(opened, clock, 'the test')
    onTestFinished(() => repository.close())
    return { ...running, announcer, repository, opened, time }
  }
  const versionsPublished = ({ published }: ScriptedAnnouncer) =>
    published.map(readMessage).filter(message => message?.kind === 'change')

  describe(`revoking all keys of a workspace, in ${database}`, () => {
    test('ends every active, retiring and suspended key, and no other', async () => {
      const live = [
        someKey(),
        someKey({ replacedBy: 'key_x' }),
        someKey({ suspendedAtMs: NOW_MS, version: 2 }),
        someKey({ suspendedAtMs: NOW_MS, replacedBy: 'key_x', version: 3 }),
      ]
      const ended = [revoked(someKey()), someKey({ expiresAtMs: LATER_MS })]
      const other = someKey({ workspaceId: 'ws_2' })
      const running = await started([...live, ...ended, other])
      const { repository } = running
      const { status, body } = await running.send('POST', REVOKE_ALL)
      expect(status).toBe(200)
      expect(body).toEqual({
        revoked: 4,
        announced: true,
        gateways: { known: 0, confirmed: 0, verifying: 0, silent: [] },
      })
      for (const { record } of live) {
        expect((await repository.findById(record.id))?.record).toEqual(planRevocation(record, LATER_MS))
      }
      for (const key of [...ended, other]) expect(await repository.findById(key.record.id)).toEqual(key)
      const { entries } = (await running.send('GET', '/admin/v1/workspaces/ws_1/audit')).body
      expect(entries).toHaveLength(4)
      expect(entries[0]).toMatchObject({
        action: 'key.revoked',
        detail: { reason: 'bulk', from: '127.0.0.1' },
      })
      expect(new Set(entries.map(({ keyId }) => keyId))).toEqual(new Set(live.map(({ record }) => record.id)))
    })

    test('announces each, and empties the outbox', async () => {
      const keys = Array.from({ length: 600 }, () => someKey())
      const { send, announcer, repository } = await started(keys)
      const before = announcer.published.length
      expect((await send('POST', REVOKE_ALL)).body).toMatchObject({ revoked: 600, announced: true })
      const published = new Set(
        versionsPublished(announcer).map(message => message?.kind === 'change' && message.digest),
      )
      expect(before).toBeLessThan(600)
      expect(published).toEqual(new Set(keys.map(key => key.digest)))
      expect(await repository.countPending()).toBe(0)
    })

    test('again revokes nothing', async () => {
      const { send } = await started([someKey()])
      await send('POST', REVOKE_ALL)
      expect((await send('POST', REVOKE_ALL)).body).toEqual({ revoked: 0, announced: true, gateways: null })
      const { entries } = (await send('GET', '/admin/v1/workspaces/ws_1/audit')).body
      expect(entries).toHaveLength(1)
    })

    test('of a workspace without keys is nothing to do', async () => {
      const { send } = await started([])
      expect((await send('POST', REVOKE_ALL)).body).toEqual({ revoked: 0, announced: true, gateways: null })
    })

    test('twice at the same time revokes and audits each key once', async () => {
      const { send } = await started(Array.from({ length: 600 }, () => someKey()))
      const answers = await Promise.all([send('POST', REVOKE_ALL), send('POST', REVOKE_ALL)])
      expect(answers.map(({ status }) => status)).toEqual([200, 200])
      const total = answers.reduce(
        (sum, { body }) => sum + (body as unknown as { revoked: number }).revoked,
        0,
      )
      expect(total).toBe(600)
    })

    test('leaves keys that are issued meanwhile: a repeated call ends them', async () => {
      const { send } = await started(Array.from({ length: 300 }, () => someKey()))
      const request = { name: 'new', scopes: ['files:read'] }
      const [all, issued] = await Promise.all([
        send('POST', REVOKE_ALL),
        send('POST', '/admin/v1/workspaces/ws_1/keys', request),
      ])
      expect([all.status, issued.status]).toEqual([200, 201])
      await send('POST', REVOKE_ALL)
      const { body } = await send('GET', `/admin/v1/keys/${issued.body.key.id}`)
      expect(body.key.state).toBe('revoked')
    })

    test('without Redis commits, says that it is not announced, and announces it later', async () => {
      const announcer = new ScriptedAnnouncer()
      announcer.set('down')
      const keys = Array.from({ length: 300 }, () => someKey())
      const { send, repository } = await started(keys, announcer)
      expect((await send('POST', REVOKE_ALL)).body).toMatchObject({ revoked: 300, announced: false })
      expect(await repository.countPending()).toBe(300)
      announcer.set('ready')
      await expect.poll(() => repository.countPending()).toBe(0)
      expect((await send('POST', REVOKE_ALL)).body).toMatchObject({ revoked: 0, announced: true })
    })

    test('that fails halfway keeps what it did, and a repeated call does the rest', async () => {
      const announcer = new ScriptedAnnouncer()
      const { send, opened } = await started(
        Array.from({ length: 600 }, () => someKey()),
        announcer,
      )
      const putAll = announcer.putAll.bind(announcer)
      announcer.putAll = async keys => {
        announcer.putAll = putAll
        await sql`alter table audit rename to hidden`.execute(opened.writer)
        return putAll(keys)
      }
      expect((await send('POST', REVOKE_ALL)).status).toBeGreaterThanOrEqual(500)
      await sql`alter table hidden rename to audit`.execute(opened.writer)
      const query = { filter: {}, workspaces: ['ws_1'], limit: 1000, afterId: null }
      const first = await searchAudit(opened, query)
      const atOnce = AT_ONCE[opened.dialect]
      expect(first.entries).toHaveLength(atOnce)
      expect((await send('POST', REVOKE_ALL)).body).toMatchObject({ revoked: 600 - atOnce, announced: true })
    })

    test('of so many keys that it takes long answers in parts, and a cursor leaves keys that were issued meanwhile', async () => {
      const announcer = new ScriptedAnnouncer()
      const keys = Array.from({ length: 600 }, () => someKey())
      const { send, repository, opened, time } = await started(keys, announcer)
      const atOnce = AT_ONCE[opened.dialect]
      const putAll = announcer.putAll.bind(announcer)
      announcer.putAll = async announcements => {
        time.aheadMs += 6000
        return putAll(announcements)
      }
      const first = await send('POST', REVOKE_ALL)
      expect(first.body).toMatchObject({
        revoked: atOnce,
        announced: true,
        gateways: { known: 0 },
        hasMore: true,
      })
      const { cursor } = first.body
      const request = { name: 'new', scopes: ['files:read'] }
      const issued = await send('POST', '/admin/v1/workspaces/ws_1/keys', request)
      for (let left = 600 - atOnce; left > atOnce; left -= atOnce) {
        const { body } = await send('POST', `${REVOKE_ALL}?cursor=${cursor}`)
        expect(body).toMatchObject({ revoked: atOnce, cursor })
      }
      const last = await send('POST', `${REVOKE_ALL}?wait=1&cursor=${cursor}`)
      expect(last.body).toMatchObject({ revoked: 100, announced: true })
      expect(last.body).not.toHaveProperty('hasMore')
      expect(last.body).not.toHaveProperty('cursor')
      expect(await repository.countLive('ws_1')).toBe(1)
      expect((await send('GET', `/admin/v1/keys/${issued.body.key.id}`)).body.key.state).toBe('active')
    })

    test('also revokes a key whose expiry is made earlier while it runs', async () => {
      const announcer = new ScriptedAnnouncer()
      const keys = Array.from({ length: 300 }, (_, number) =>
        someKey({ expiresAtMs: LATER_MS + 1e6 + number }),
      )
      const { send, repository } = await started(keys, announcer)
      const putAll = announcer.putAll.bind(announcer)
      const moved = keys.at(-1)
      if (moved === undefined) throw new Error('There is no key')
      announcer.putAll = async announcements => {
        announcer.putAll = putAll
        const { record, digest } = moved
        const earlier = { ...record, expiresAtMs: LATER_MS + 1e5, version: record.version + 1 }
        await replace(repository, { record: earlier, digest })
        return putAll(announcements)
      }
      expect((await send('POST', REVOKE_ALL)).body).toMatchObject({ revoked: 300 })
      expect(await repository.countLive('ws_1')).toBe(0)
    })

    test.each([0, 86_400])(
      'also revokes what replaces a key by a rotation while it runs, overlap of %i s',
      async overlapSeconds => {
        const announcer = new ScriptedAnnouncer()
        const keys = Array.from({ length: 1000 }, () => someKey())
        const { send, repository } = await started(keys, announcer)
        const putAll = announcer.putAll.bind(announcer)
        const rotate = async (id: string) => {
          const { status, body } = await send('POST', `/admin/v1/keys/${id}/rotate`, { overlapSeconds })
          expect(status).toBe(201)
          return body.key.id
        }
        let isRotated = false
        announcer.putAll = async announcements => {
          if (!isRotated) {
            isRotated = true
            await rotate(await rotate(keys.at(-1)?.record.id ?? ''))
          }
          return putAll(announcements)
        }
        const { status, body } = await send('POST', REVOKE_ALL)
        expect([status, body.hasMore]).toEqual([200, undefined])
        expect(isRotated).toBe(true)
        expect(await repository.countLive('ws_1')).toBe(0)
      },
    )

    test('with another cursor, another wait or a body is refused', async () => {
      const { send } = await started([someKey()])
      for (const [query, body] of [
        ['?cursor=x', {}],
        ['?wait=2', {}],
        ['', { reason: 'leak' }],
      ] as const) {
        expect([query, (await send('POST', REVOKE_ALL + query, body)).status]).toEqual([query, 400])
      }
    })
  })
}
