import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { CopiedSources } from '../support/copied-sources.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import type { IssuedKey, World } from '../support/world.ts'
import { DECIDING_FIELD, TYPE_GRANT_COLUMN } from './deciding-field.ts'

/** These tests add a field that decides, `onlyRoute`, to a copy of the sources as docs/architecture.md says, and follow it. */
let copy: CopiedSources
/** Where the compiler finds the field missing after its type, its place in the grant and its column are written. */
let named: string[] = []

beforeAll(() => {
  copy = new CopiedSources()
  for (const changes of DECIDING_FIELD) {
    for (const [file, places] of Object.entries(changes)) copy.change(file, places)
    if (changes === TYPE_GRANT_COLUMN) named = copy.filesWithErrors()
  }
}, 600_000)
afterAll(() => copy.remove())

const changed = () => [...new Set(DECIDING_FIELD.flatMap(changes => Object.keys(changes)))].toSorted()

describe('the recipe', () => {
  test('the compiler names the places where a new field of a key that decides is left out', () => {
    expect(named).toEqual([
      'cli/options/key-fields.ts',
      'console/keys/key-form.ts',
      'console/platform/database/key-row.ts',
      'console/platform/http/fields.ts',
      'domain/key/key-fields.ts',
      'domain/wire.ts',
    ])
  })

  test('with the changes to at most 12 files the program compiles', { timeout: 600_000 }, () => {
    expect(changed().length).toBeLessThanOrEqual(12)
    expect(copy.filesWithErrors()).toEqual([])
  })

  test('docs/architecture.md names each of these files, and no other', () => {
    const text = readFileSync(new URL('../../docs/architecture.md', import.meta.url), 'utf8')
    const recipe = /^### A field of a key that decides\n([\s\S]*?)^Issue, edit/m.exec(text)?.[1] ?? ''
    const files = [...recipe.matchAll(/`([\w./-]+\.ts)`/g)].map(([, file = '']) => file)
    const isNamed = (path: string) => files.some(file => path === file || path.endsWith(`/${file}`))
    expect(changed().filter(path => !isNamed(path))).toEqual([])
    expect(files).toHaveLength(changed().length)
  })
})

describe('the console', () => {
  test('takes it when a key is issued or edited, returns it, and refuses a wrong one', async () => {
    const { issue, edit, send } = await copy.startConsole()
    const issued = await issue({ onlyRoute: 'files' })
    expect([issued.status, issued.body.key]).toMatchObject([201, { onlyRoute: 'files' }])
    const { id } = issued.body.key
    expect((await send('GET', '/admin/v1/keys')).body.keys).toMatchObject([{ onlyRoute: 'files' }])
    expect((await edit(id, 1, { onlyRoute: 'workspace' })).body.key).toMatchObject({ onlyRoute: 'workspace' })
    const rotated = await send('POST', `/admin/v1/keys/${id}/rotate`, {})
    expect(rotated.body).toMatchObject({ key: { onlyRoute: 'workspace' } })
    const refused = await issue({ onlyRoute: 'Files!' })
    const error = 'onlyRoute must be null or the name of a route in lower case'
    expect([refused.status, refused.body]).toMatchObject([400, { field: 'onlyRoute', error }])
    const document = JSON.parse((await send('GET', '/admin/v1/openapi.json')).text)
    expect(document.components.schemas.Key.properties).toHaveProperty('onlyRoute')
  })

  test('stores it in the row, exports and imports it, and says in the audit log what became of it', async () => {
    const { issue, edit, file, send } = await copy.startConsole()
    const { id } = (await issue({ onlyRoute: 'files' })).body.key
    const database = new DatabaseSync(file, { readOnly: true })
    expect(database.prepare('select only_route from keys').get()).toEqual({ only_route: 'files' })
    database.close()
    const line = JSON.parse((await send('GET', '/admin/v1/keys/export')).text)
    expect(line).toMatchObject({ onlyRoute: 'files' })
    const other = await copy.startConsole()
    await other.send('POST', '/admin/v1/import', { keys: [line] })
    expect((await other.send('GET', '/admin/v1/keys')).body.keys).toMatchObject([{ onlyRoute: 'files' }])
    await edit(id, 1, { onlyRoute: null })
    const { entries } = (await send('GET', '/admin/v1/workspaces/ws_1/audit')).body
    expect(entries).toMatchObject([
      { action: 'key.edited', detail: { changes: { onlyRoute: { old: 'files', new: null } } } },
      { action: 'key.issued', detail: { onlyRoute: 'files' } },
    ])
  })

  test('has a field for it on its pages, and shows it', async () => {
    const world = await copy.startConsole()
    const ada = await world.signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
    const form = await ada.browser.visit('/workspaces/ws_1/keys/new')
    expect(form.text).toContain('<label for="onlyRoute">Only route</label>')
    const once = /name="once" value="([^"]*)"/.exec(form.text)?.[1] ?? ''
    const fields = { name: 'build server', onlyRoute: 'files', scopes: 'files:read', expiry: '90', date: '' }
    const issued = await ada.browser.post('/workspaces/ws_1/keys/new', {
      ...{ _csrf: ada.csrf, once, allowedCidrs: '', description: '' },
      ...fields,
    })
    expect(issued.text).toContain('<dt>Only route</dt><dd>files</dd>')
    const [key] = (await world.send('GET', '/admin/v1/keys')).body.keys
    const page = await ada.browser.visit(`/workspaces/ws_1/keys/${key?.id}/edit`)
    expect(page.text).toContain('id="onlyRoute" name="onlyRoute" value="files"')
  })

  test('takes it from commands, which show it and clear it', async () => {
    const { postern, send } = await copy.startConsole()
    const where = ['--workspace', 'ws_1', '--scope', 'files:read']
    expect((await postern('keys', 'issue', ...where, '--only-route', 'files')).code).toBe(0)
    const [key] = (await send('GET', '/admin/v1/keys')).body.keys
    const id = key?.id ?? ''
    expect((await postern('keys', 'show', id)).stdout).toMatch(/^Only route +files$/m)
    const dryRun = await postern('keys', 'edit', id, '--clear', 'only-route', '--dry-run')
    expect(dryRun.stdout).toContain('only route would be none, is files')
    expect((await postern('keys', 'edit', id, '--clear', 'only-route')).code).toBe(0)
    expect((await send('GET', `/admin/v1/keys/${id}`)).body.key).toMatchObject({ onlyRoute: null })
  })
})

describe('a gateway', () => {
  let world: World
  beforeAll(async () => {
    // The copy is not built.
    vi.stubEnv('TEST_FORM', '')
    const { startWorld } = (await copy.support('world.ts')) as typeof import('../support/world.ts')
    vi.unstubAllEnvs()
    // Compiled code of a copy would never be used again.
    const settings = { NODE_DISABLE_COMPILE_CACHE: '1' }
    // Only a message makes this gateway forget a record while a test runs.
    const databaseUrl = `sqlite:${join(copy.directory, 'keys.db')}`
    world = await startWorld(
      { ...settings, POSTERN_KEYS_MEMORY_TTL_SECONDS: '3600' },
      { ...settings, POSTERN_DATABASE_URL: databaseUrl },
    )
  })
  afterAll(() => world.stop())

  async function issue(onlyRoute: string | null): Promise<IssuedKey> {
    const body = { name: 'build server', scopes: ['files:read', 'workspace:read'], onlyRoute }
    const { json } = await world.admin('POST', '/workspaces/ws_1/keys', body)
    // The console answers 201 with both, or the next request fails.
    return { id: (json['key'] as { id: string }).id, secret: String(json['secret']) }
  }

  async function edit(id: string, version: number, onlyRoute: string | null): Promise<void> {
    const url = `${world.console.urls.console}/admin/v1/keys/${id}`
    const authorization = `Bearer ${world.cliEnv['POSTERN_ADMIN_TOKEN']}`
    const headers = { authorization, 'content-type': 'application/json', 'if-match': `"${version}"` }
    const { status } = await fetch(url, { method: 'PATCH', headers, body: JSON.stringify({ onlyRoute }) })
    expect(status).toBe(200)
  }

  const FILES = '/api/v1/workspaces/ws_1/files'
  const WORKSPACE = '/api/v1/workspaces/ws_1'

  /** Status of a permitted request, code of a denied one. */
  async function send(path: string, { secret }: IssuedKey): Promise<unknown> {
    const headers = { authorization: `Bearer ${secret}` }
    const response = await fetch(`${world.gateway.urls.gateway}${path}`, { headers })
    const text = await response.text()
    return response.ok ? response.status : JSON.parse(text).code
  }

  const entryOf = ({ secret }: IssuedKey) =>
    `postern:key:${createHash('sha256').update(secret).digest('hex')}`

  test('permits the route of the key alone, and counts the denial by its reason', async () => {
    const key = await issue('files')
    expect([await send(FILES, key), await send(WORKSPACE, key)]).toEqual([200, 'route_not_allowed'])
    const metrics = await scrape(world.gateway.urls.ops)
    expect(sumOf(metrics, 'postern_auth_decisions_total', 'reason="route_not_allowed"')).toBe(1)
    const free = await issue(null)
    expect([await send(FILES, free), await send(WORKSPACE, free)]).toEqual([200, 200])
  })

  test('follows a change of it that is announced through Redis', async () => {
    const key = await issue(null)
    expect(await send(WORKSPACE, key)).toBe(200)
    await edit(key.id, 1, 'files')
    await until('the route is denied', async () => (await send(WORKSPACE, key)) === 'route_not_allowed')
    await edit(key.id, 2, 'workspace')
    await until('the route is permitted', async () => (await send(WORKSPACE, key)) === 200)
    expect(await send(FILES, key)).toBe('route_not_allowed')
  })

  test('takes it from Redis under the MAC alone, in a record that a gateway without the field refuses', async () => {
    const key = await issue('files')
    const text = (await world.redis.admin.get(entryOf(key))) ?? ''
    const record = JSON.parse(text)
    expect(record).toMatchObject({ v: 4, onlyRoute: 'files' })
    const { decodeRecord } = await import('../../src/domain/wire.ts')
    expect(decodeRecord(text, '', null)).toEqual({ ok: false, why: 'unknown_schema' })
    await world.redis.admin.set(entryOf(key), JSON.stringify({ ...record, onlyRoute: 'workspace' }))
    expect(await send(WORKSPACE, key)).toBe('route_not_allowed')
  })

  test('a restored backup has what became of it since, as far as Redis knows', async () => {
    const { runPosternHere } = (await copy.support(
      'postern-here.ts',
    )) as typeof import('../support/postern-here.ts')
    const [backup, restored] = [join(copy.directory, 'backup.db'), join(copy.directory, 'restored.db')]
    const env = { ...world.env, POSTERN_DATABASE_URL: `sqlite:${join(copy.directory, 'keys.db')}` }
    const key = await issue(null)
    expect(await runPosternHere(['database', 'backup', backup], env)).toMatchObject({ code: 0 })
    await edit(key.id, 1, 'files')
    await until('the change is announced', async () => (await send(WORKSPACE, key)) === 'route_not_allowed')
    const to = { ...env, POSTERN_DATABASE_URL: `sqlite:${restored}` }
    expect(await runPosternHere(['database', 'restore', backup], to)).toMatchObject({ code: 0 })
    const database = new DatabaseSync(restored, { readOnly: true })
    expect(database.prepare('select only_route from keys where id = ?').get(key.id)).toEqual({
      only_route: 'files',
    })
    database.close()
  })
})
