import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../support/open-database.ts'
import { startPostern } from '../support/postern-process.ts'
import { scrapeOne } from '../support/scrape.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { makeSmallDisk } from '../support/small-disk.ts'

const TOKEN = 'admin-token-of-the-full-disk'
const FAILURES = 20

test('a console whose disk is full rejects and counts changes, serves reads, and recovers when there is space', async () => {
  const disk = makeSmallDisk(2)
  onTestFinished(() => disk.remove())
  const databaseUrl = `sqlite:${disk.directory}/keys.db`
  const { process: console, urls } = await startPostern(
    'console',
    {
      POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
      POSTERN_KEY_SERVICE_TOKEN: 'key-service-token-of-the-full-disk',
      POSTERN_ADMIN_TOKEN: TOKEN,
      POSTERN_DATABASE_URL: databaseUrl,
      POSTERN_DRAIN_DELAY_MS: '0',
    },
    [],
    disk.launcher,
  )
  const send = async (method: 'GET' | 'POST', path: string, body?: object) => {
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(`${urls.console}/admin/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${TOKEN}`, ...type },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const json = (await response.json()) as {
      key: { id: string }
      keys: { id: string }[]
      code: string
      error: string
    }
    return { status: response.status, json }
  }
  const issue = () => send('POST', '/workspaces/ws_1/keys', { name: 'a', scopes: ['files:read'] })
  const pid = console.child.pid ?? 0

  const issued = [(await issue()).json.key.id, (await issue()).json.key.id]
  const [kept = ''] = issued
  const readiness = async () => (await fetch(`${urls.ops}/readyz`)).json()
  // So small a disk is nearly full from the start; a limit on files says nothing of it.
  const isMounted = disk.kind.includes('mounted')
  expect(await readiness()).toMatchObject({ status: 'ready', database: isMounted ? 'low_space' : 'ok' })
  disk.fill(pid)
  for (let attempt = 0; attempt < FAILURES; attempt++) {
    const { status, json } = attempt % 2 === 0 ? await issue() : await send('POST', `/keys/${kept}/revoke`)
    expect([status, json.code]).toEqual([503, 'database_unavailable'])
    expect(json.error).toMatch(/^The database did not make the change/)
  }
  const list = await send('GET', '/workspaces/ws_1/keys')
  expect(list.json.keys.map(key => key.id).toSorted()).toEqual(issued.toSorted())
  expect((await fetch(`${urls.ops}/livez`)).status).toBe(200)
  // Reads succeed: readiness says what writes say.
  expect(await readiness()).toMatchObject({ status: 'ready', database: 'failed' })
  expect(await scrapeOne(urls.ops, 'postern_audit_write_failures_total')).toBe(FAILURES)

  const freedAtMs = performance.now()
  disk.free(pid)
  const after = await issue()
  const recoveredMs = Math.round(performance.now() - freedAtMs)
  expect(after.status).toBe(201)
  issued.push(after.json.key.id)
  expect((await send('POST', `/keys/${kept}/revoke`)).status).toBe(200)
  expect((await console.stop('SIGTERM')).code).toBe(0)

  const { reader, close } = await openDatabase(databaseUrl)
  const { rows } = await sql<{ integrity_check: string }>`pragma integrity_check`.execute(reader)
  const keys = await reader.selectFrom('keys').select('id').execute()
  const entries = await reader.selectFrom('audit').select(['action', 'key_id']).execute()
  await close()
  process.stdout.write(
    `full disk (${disk.kind}): ${FAILURES} changes rejected, 0 of them half written, accepted again after ${recoveredMs} ms\n`,
  )
  expect(rows).toEqual([{ integrity_check: 'ok' }])
  expect(keys.map(key => key.id).toSorted()).toEqual(issued.toSorted())
  expect(entries.map(({ action, key_id }) => `${action} ${key_id}`).toSorted()).toEqual(
    [...issued.map(id => `key.issued ${id}`), `key.revoked ${kept}`].toSorted(),
  )
})
