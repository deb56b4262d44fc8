import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { decodeRecord, deriveRecordKey } from '../../src/domain/wire.ts'
import { ADMIN_TOKEN, KEY_SERVICE_TOKEN, SIGNING_SECRET, startConsole } from '../support/console.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const request = { name: 'build server', scopes: ['workspace:read'] }
const lookUpKey = (digest: string) => `/internal/v1/keys/${digest}`

describe('the key service', () => {
  test('returns the record in the form that Redis holds', async () => {
    const { send } = await startConsole()
    const { body: issued } = await send('POST', KEYS, request)
    const digest = digestKey(issued.secret)
    const { status, headers, text } = await send('GET', lookUpKey(digest))
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    expect(headers['cache-control']).toBe('no-store')
    const decoded = decodeRecord(text, digest, [deriveRecordKey(SIGNING_SECRET)])
    expect(decoded).toMatchObject({ ok: true, grant: { id: issued.key.id, version: 1 } })
  })

  test('returns a revoked key as revoked at once', async () => {
    const { send } = await startConsole()
    const { body: issued } = await send('POST', KEYS, request)
    await send('POST', `/admin/v1/keys/${issued.key.id}/revoke`)
    const { body } = await send('GET', lookUpKey(digestKey(issued.secret)))
    expect(body).toMatchObject({ version: 2, revokedAt: expect.any(String) })
  })

  test('answers 404 not_found for an unknown key', async () => {
    const { send } = await startConsole()
    const { status, body } = await send('GET', lookUpKey('0'.repeat(64)))
    expect({ status, code: body.code }).toEqual({ status: 404, code: 'not_found' })
  })

  test.each(['', '0'.repeat(63), '0'.repeat(65), 'A'.repeat(64), `${'0'.repeat(63)}g`, '*', '__proto__'])(
    'never says so of what is no digest: %s',
    async digest => {
      const { send } = await startConsole()
      const { status, body } = await send('GET', lookUpKey(digest))
      expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_request' })
    },
  )

  test.each(['', `Bearer ${ADMIN_TOKEN}`, 'Bearer key-service-token', 'Bearer undefined'])(
    'tells nothing to who holds “%s”',
    async authorization => {
      const { send } = await startConsole()
      const { status, body } = await send('GET', lookUpKey('0'.repeat(64)), undefined, {
        headers: { authorization },
      })
      expect({ status, code: body.code }).toEqual({ status: 401, code: 'unauthenticated' })
    },
  )

  test.each([
    '/nothing',
    '/v2/keys/0',
    `/internal/v1/key/${'0'.repeat(64)}`,
    `/x${lookUpKey('0'.repeat(64))}`,
  ])('never says so to a gateway that was given a wrong address: %s', async path => {
    const { send } = await startConsole()
    const headers = { authorization: `Bearer ${KEY_SERVICE_TOKEN}` }
    const { status, body } = await send('GET', path, undefined, { headers })
    expect({ status, code: body.code }).toEqual({ status: 404, code: 'unknown_path' })
  })

  test('answers 500, not 404, if the database fails', async () => {
    const file = join(databaseDirectory(), 'keys.db')
    const { send } = await startConsole({ databaseUrl: `sqlite:${file}` })
    const other = new DatabaseSync(file)
    other.exec('DROP TABLE keys')
    other.close()
    const { status, body } = await send('GET', lookUpKey('0'.repeat(64)))
    expect({ status, code: body.code }).toEqual({ status: 500, code: 'internal_error' })
  })

  test('omits a key whose row is invalid from a batch, and returns the others', async () => {
    const file = join(databaseDirectory(), 'postern.db')
    const { send } = await startConsole({ databaseUrl: `sqlite:${file}` })
    const [broken, whole] = [await send('POST', KEYS, request), await send('POST', KEYS, request)]
    const other = new DatabaseSync(file)
    other.prepare("UPDATE keys SET scopes = '[7]' WHERE id = ?").run(broken.body.key.id)
    other.close()
    const digests = [digestKey(broken.body.secret), digestKey(whole.body.secret), '0'.repeat(64)]
    const { status, body } = await send('POST', '/internal/v1/lookups', { digests })
    expect(status).toBe(200)
    expect(Object.keys(body.records)).toEqual(digests.slice(1))
    expect(body.records[digests[1] ?? '']).toMatchObject({ id: whole.body.key.id })
    expect(body.records[digests[2] ?? '']).toBeNull()
  })
})
