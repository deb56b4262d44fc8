import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { CopiedSources, type SourceChange } from '../support/copied-sources.ts'
import { recordOf } from '../support/key-records.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import type { IssuedKey, World } from '../support/world.ts'
import { DECIDING_FIELD, TYPE_GRANT_COLUMN } from './deciding-field.ts'

/**
 * These tests add two fields of a key to one copy of the sources, as docs/architecture.md says, and follow them: a text, `owner`, by an
 * entry of a table and a migration alone, and a field that decides, `onlyRoute`. The compiler takes seconds for each state of the copy.
 */
const ENTRY =
  "  owner: { label: 'Owner', maxLength: 20, hint: 'Who is asked about it', help: 'who is asked about it' },\n"
const MIGRATION = `  '9999_owner': migrationOf((_dialect, text) => [sql\`alter table keys add column owner \${text}\`]),
`
const TEXT: Readonly<Record<string, readonly SourceChange[]>> = {
  'domain/key/key-texts.ts': [['} as const satisfies', `${ENTRY}} as const satisfies`]],
  'console/schema.ts': [
    // After the last migration.
    [/\}\n$/, `${MIGRATION}}\n`],
  ],
}

let copy: CopiedSources
/** Where the compiler finds a field missing when all of the text is written, and of the other its type, its place in the grant and its column. */
let named: string[] = []

beforeAll(() => {
  copy = new CopiedSources()
  for (const [file, places] of Object.entries(TEXT)) copy.change(file, places)
  for (const changes of DECIDING_FIELD) {
    for (const [file, places] of Object.entries(changes)) copy.change(file, places)
    if (changes === TYPE_GRANT_COLUMN) named = copy.filesWithErrors()
  }
}, 600_000)
afterAll(() => copy.remove())

const changed = () => [...new Set(DECIDING_FIELD.flatMap(changes => Object.keys(changes)))].toSorted()

describe('the recipes', () => {
  test('the compiler names the places where a new field that decides is left out, and none for the text', () => {
    expect(named).toEqual([
      'cli/options/key-fields.ts',
      'console/keys/key-form.ts',
      'console/platform/database/key-row.ts',
      'console/platform/http/fields.ts',
      'domain/key/key-fields.ts',
      'domain/key/key-record.ts',
      'domain/wire.ts',
    ])
  })

  test('with the changes to at most 12 files, and the two for the text, the program compiles', {
    timeout: 600_000,
  }, () => {
    expect(changed().length).toBeLessThanOrEqual(12)
    expect(copy.filesWithErrors()).toEqual([])
  })

  test('docs/architecture.md names each file of the field that decides, and no other', () => {
    const text = readFileSync(new URL('../../docs/architecture.md', import.meta.url), 'utf8')
    const recipe = /^### A field of a key that decides\n([\s\S]*?)^Issue, edit/m.exec(text)?.[1] ?? ''
    const files = [...recipe.matchAll(/`([\w./-]+\.ts)`/g)].map(([, file = '']) => file)
    const isNamed = (path: string) => files.some(file => path === file || path.endsWith(`/${file}`))
    expect(changed().filter(path => !isNamed(path))).toEqual([])
    expect(files).toHaveLength(changed().length)
  })
})

test('the field that decides counts among the restrictions that Redis must not lift after a restore', async () => {
  const { isStricter } = (await copy.support(
    '../../src/domain/key/key-record.ts',
  )) as typeof import('../../src/domain/key/key-record.ts')
  const recordWith = (onlyRoute: string | null) => ({ ...recordOf(), onlyRoute })
  expect(isStricter(recordWith('files'), recordWith(null))).toBe(true)
  expect(isStricter(recordWith(null), recordWith('files'))).toBe(false)
  expect(isStricter(recordWith('workspace'), recordWith('files'))).toBe(false)
  expect(isStricter(recordWith('files'), recordWith('files'))).toBe(false)
})

describe('with the field that decides, the console', () => {
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

describe('with the field that decides, a gateway', () => {
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

/** A console, whose keys have an owner if a test does not say otherwise. */
async function started() {
  const world = await copy.startConsole()
  return { ...world, issue: (more: object = {}) => world.issue({ owner: 'gold', ...more }) }
}

describe('with the text, the admin API', () => {
  test('takes it when a key is issued or edited, and returns it wherever it returns a key', async () => {
    const { issue, edit, send } = await started()
    const issued = await issue()
    expect([issued.status, issued.body.key]).toMatchObject([201, { owner: 'gold' }])
    const { id } = issued.body.key
    const edited = await edit(id, 1, { owner: 'silver' })
    expect([edited.status, edited.body.key]).toMatchObject([200, { owner: 'silver', version: 2 }])
    for (const list of ['/admin/v1/workspaces/ws_1/keys', '/admin/v1/keys']) {
      expect((await send('GET', list)).body.keys).toMatchObject([{ owner: 'silver' }])
    }
    const rotated = await send('POST', `/admin/v1/keys/${id}/rotate`, {})
    expect(rotated.body).toMatchObject({ key: { owner: 'silver' }, replaced: { owner: 'silver' } })
    const cleared = await edit(rotated.body.key.id, 1, { owner: null })
    expect(cleared.body.key).toMatchObject({ owner: null })
  })

  test('says what it must be, and describes it', async () => {
    const { issue, send } = await started()
    const refused = await issue({ owner: 'p'.repeat(21) })
    const error =
      'owner must be null or at most 20 characters, none of them a control character or line break'
    expect([refused.status, refused.body]).toMatchObject([400, { field: 'owner', error }])
    expect((await issue({ owner: `of wsk_${'a'.repeat(54)}` })).status).toBe(400)
    const document = JSON.parse((await send('GET', '/admin/v1/openapi.json')).text)
    expect(document.components.schemas.Key.properties).toHaveProperty('owner')
  })

  test('exports and imports it', async () => {
    const { issue, send } = await started()
    await issue()
    const line = JSON.parse((await send('GET', '/admin/v1/keys/export')).text)
    expect(line).toMatchObject({ owner: 'gold' })
    const other = await started()
    const imported = await other.send('POST', '/admin/v1/import', { keys: [line] })
    expect(JSON.parse(imported.text)).toMatchObject({ imported: 1 })
    expect((await other.send('GET', '/admin/v1/keys')).body.keys).toMatchObject([{ owner: 'gold' }])
    const secret = { ...line, digest: 'a'.repeat(64), owner: 'p'.repeat(21) }
    const refused = await other.send('POST', '/admin/v1/import', { keys: [secret] })
    expect(JSON.parse(refused.text).results).toMatchObject([{ status: 'invalid', field: 'owner' }])
  })
})

test('the text is a column of its row, and no gateway gets it', async () => {
  const { issue, file, send } = await started()
  const { key } = (await issue()).body
  const database = new DatabaseSync(file, { readOnly: true })
  const { owner, digest } = database.prepare('select owner, digest from keys where id = ?').get(key.id) ?? {}
  database.close()
  expect(owner).toBe('gold')
  const found = await send('POST', '/internal/v1/lookups', { digests: [digest] })
  expect(found.text).toContain(key.id)
  expect(found.text).not.toContain('gold')
})

test('the audit log says what the text was and what it became', async () => {
  const { issue, edit, send } = await started()
  const { id } = (await issue()).body.key
  await edit(id, 1, { owner: 'silver' })
  const { entries } = (await send('GET', '/admin/v1/workspaces/ws_1/audit')).body
  expect(entries).toMatchObject([
    { action: 'key.edited', detail: { changes: { owner: { old: 'gold', new: 'silver' } } } },
    { action: 'key.issued', detail: { owner: 'gold' } },
  ])
})

test('the pages have a field for the text, show it, and name it in a conflict', async () => {
  const world = await started()
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
  const form = await ada.browser.visit('/workspaces/ws_1/keys/new')
  expect(form.text).toContain('<label for="owner">Owner</label>')
  expect(form.text).toContain('Who is asked about it')
  const once = /name="once" value="([^"]*)"/.exec(form.text)?.[1] ?? ''
  const fields = { name: 'build server', owner: 'gold', scopes: 'files:read', expiry: '90', date: '' }
  const sent = { _csrf: ada.csrf, once, allowedCidrs: '', ...fields }
  const wrong = await ada.browser.post('/workspaces/ws_1/keys/new', { ...sent, owner: 'p'.repeat(21) })
  expect([wrong.status, wrong.text]).toEqual([
    422,
    expect.stringContaining('This must be null or at most 20'),
  ])
  const issued = await ada.browser.post('/workspaces/ws_1/keys/new', sent)
  expect(issued.text).toContain('<dt>Owner</dt><dd><bdi>gold</bdi></dd>')
  const [key] = (await world.send('GET', '/admin/v1/keys')).body.keys
  const path = `/workspaces/ws_1/keys/${key?.id}`
  expect((await ada.browser.visit(path)).text).toContain('<dt>Owner</dt><dd><bdi>gold</bdi></dd>')
  expect((await ada.browser.visit(`${path}/edit`)).text).toContain('id="owner" name="owner" value="gold"')
  const edit = { _csrf: ada.csrf, name: 'build server', allowedCidrs: '', date: '', version: '1' }
  expect((await ada.browser.post(`${path}/edit`, { ...edit, owner: 'silver' })).status).toBe(303)
  const late = await ada.browser.post(`${path}/edit`, { ...edit, name: 'CI', owner: 'gold' })
  expect([late.status, late.text]).toEqual([
    412,
    expect.stringContaining('Owner: “<bdi>gold</bdi>” became “<bdi>silver</bdi>”'),
  ])
  // The person left the text as it was: the form now has the present one.
  expect(late.text).toContain('id="owner" name="owner" value="silver"')
})

test('commands take the text, show it and clear it', async () => {
  const { postern, send } = await started()
  const where = ['--workspace', 'ws_1', '--scope', 'files:read']
  expect((await postern('keys', 'issue', ...where, '--owner', 'gold')).code).toBe(0)
  const [key] = (await send('GET', '/admin/v1/keys')).body.keys
  const id = key?.id ?? ''
  const shown = await postern('keys', 'show', id)
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringMatching(/^Owner +gold$/m)])
  expect((await postern('keys', 'edit', id, '--owner', 'silver')).code).toBe(0)
  expect((await send('GET', `/admin/v1/keys/${id}`)).body.key).toMatchObject({ owner: 'silver' })
  expect((await postern('keys', 'edit', id, '--clear', 'owner')).code).toBe(0)
  expect((await send('GET', `/admin/v1/keys/${id}`)).body.key).toMatchObject({ owner: null })
  expect((await postern('keys', 'edit', id, '--owner', 'x', '--clear', 'owner')).stderr).toContain(
    '--owner and --clear owner exclude each other',
  )
  expect((await postern('keys', 'issue', '--help')).stdout).toContain('who is asked about it')
})
