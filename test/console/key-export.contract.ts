import { describe, expect, onTestFinished, test } from 'vitest'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { toRecordJson } from '../../src/domain/wire.ts'
import { startConsole } from '../support/console.ts'
import { openDatabase } from '../support/open-database.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

const EXPORT = '/admin/v1/keys/export'

/** @param freshUrl the address of a database without rows that a second connection sees */
export function describeKeyExport(database: string, freshUrl: () => Promise<string>): void {
  const started = async (keys: readonly StoredKey[]) => {
    const databaseUrl = await freshUrl()
    const { writer, close } = await openDatabase(databaseUrl)
    onTestFinished(close)
    for (let from = 0; from < keys.length; from += 500) {
      const rows = keys.slice(from, from + 500).map(key => toKeyRow(key, NOW_MS))
      await writer.insertInto('keys').values(rows).execute()
    }
    return { ...(await startConsole({ databaseUrl })), writer }
  }
  const linesOf = (text: string) => text.split('\n').slice(0, -1)

  describe(`the export of keys in ${database}`, () => {
    test('has every key in every state and workspace with its digest, oldest first, one a line', async () => {
      const keys = [
        someKey({ description: 'of the nightly build', allowedCidrs: ['192.0.2.0/24'] }),
        revoked(someKey({ workspaceId: 'ws_2' })),
        someKey({ expiresAtMs: NOW_MS - 1 }),
        someKey({ suspendedAtMs: NOW_MS, replacedBy: 'key_x' }),
      ]
      const { send } = await started(keys)
      const { status, headers, text } = await send('GET', EXPORT)
      expect(status).toBe(200)
      expect(headers['content-type']).toBe('application/x-ndjson; charset=utf-8')
      expect(linesOf(text).map(line => JSON.parse(line))).toEqual(
        keys.map(({ digest, record }) => ({ digest, ...toRecordJson(record) })),
      )
    })

    test('has each key once, however many pages it is read in', async () => {
      const keys = Array.from({ length: 1001 }, () => someKey())
      const { send } = await started(keys)
      const digests = linesOf((await send('GET', EXPORT)).text).map(line => JSON.parse(line).digest)
      expect(digests).toEqual(keys.map(({ digest }) => digest))
    })

    test('is empty without keys, and a HEAD is answered without reading any', async () => {
      const { send, writer } = await started([])
      expect(await send('GET', EXPORT)).toMatchObject({ status: 200, text: '' })
      await writer.schema.alterTable('keys').renameTo('keys_elsewhere').execute()
      const head = await send('HEAD', EXPORT)
      expect(head).toMatchObject({ status: 200, text: '' })
      expect(head.headers['content-type']).toBe('application/x-ndjson; charset=utf-8')
      expect((await send('GET', EXPORT)).status).toBe(500)
    })

    test('needs keys:write in all workspaces', async () => {
      const { send } = await started([someKey()])
      const statusWith = async (rights: object) => {
        const body = { name: 'migration', expiresInDays: 1, ...rights }
        const { secret } = (await send('POST', '/admin/v1/tokens', body)).body
        const headers = { authorization: `Bearer ${secret}` }
        return (await send('GET', EXPORT, undefined, { headers })).status
      }
      expect(await statusWith({ permissions: ['keys:write'] })).toBe(200)
      expect(await statusWith({ permissions: ['keys:read', 'audit:read'] })).toBe(403)
      expect(await statusWith({ permissions: ['keys:write'], workspaces: ['ws_1'] })).toBe(403)
    })

    test('knows no parameter and no other method', async () => {
      const { send } = await started([])
      expect((await send('GET', `${EXPORT}?limit=1`)).status).toBe(400)
      expect(await send('POST', EXPORT)).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } })
    })
  })
}
