import { get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import { ADMIN_TOKEN, startConsole } from '../support/console.ts'
import { openDatabase } from '../support/open-database.ts'
import { NOW_MS, someKey } from '../support/stored-keys.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'
import { describeKeyExport } from './key-export.contract.ts'

const KEYS = 10_000

describeKeyExport('an SQLite file', async () => `sqlite:${join(databaseDirectory(), 'a.db')}`)

test('an export whose database fails midway breaks off, and the log says why', async () => {
  const file = join(databaseDirectory(), 'a.db')
  const { writer, close } = await openDatabase(`sqlite:${file}`)
  for (let from = 0; from < KEYS; from += 500) {
    const rows = Array.from({ length: 500 }, () => toKeyRow(someKey(), NOW_MS))
    await writer.insertInto('keys').values(rows).execute()
  }
  await close()
  const { app, log } = await startConsole({ databaseUrl: `sqlite:${file}` })
  await app.listen({ host: '127.0.0.1', port: 0 })
  // The server listens on TCP, so its address is no path.
  const { port } = app.server.address() as AddressInfo
  const { promise, resolve } = Promise.withResolvers<IncomingMessage>()
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
  get({ port, path: '/admin/v1/keys/export', headers }, resolve)
  const response = await promise
  const ended = new Promise(resolve => response.once('error', resolve))
  await new Promise(resolve => response.once('data', resolve))
  response.pause()
  await until('the keys are gone', () => hideKeys(file))
  response.resume()
  expect(await ended).toMatchObject({ code: 'ECONNRESET' })
  expect(response.complete).toBe(false)
  const line = await until('the log says it', () => log.find(({ msg }) => msg === 'response cut off'))
  expect(line).toMatchObject({
    err: { message: expect.stringContaining('no such table') },
    requestId: response.headers['x-request-id'],
  })
})

/** @returns whether it could: the console of this process may be writing, when it last wrote the use of a token for one */
function hideKeys(file: string): boolean {
  const database = new DatabaseSync(file)
  try {
    database.exec('ALTER TABLE keys RENAME TO keys_elsewhere')
    return true
  } catch (error) {
    if (error instanceof Error && error.message === 'database is locked') return false
    throw error
  } finally {
    database.close()
  }
}
