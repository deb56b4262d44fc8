import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CopiedSources } from '../support/copied-sources.ts'

/**
 * A text of a key is an entry of a table and a migration, as docs/architecture.md says. These tests add one named `owner` to a copy of
 * the sources by these two changes alone, and follow it.
 */
const ENTRY =
  "  owner: { label: 'Owner', maxLength: 20, hint: 'Who is asked about it', help: 'who is asked about it' },\n"
const MIGRATION = `  '9999_owner': migrationOf((_dialect, text) => [sql\`alter table keys add column owner \${text}\`]),
`

let copy: CopiedSources

beforeAll(() => {
  copy = new CopiedSources()
  copy.change('domain/key/key-texts.ts', [['} as const satisfies', `${ENTRY}} as const satisfies`]])
  copy.change('console/schema.ts', [
    [/^import/, "import { sql } from 'kysely'\nimport"],
    // After the last migration.
    [/^\}\n$/m, `${MIGRATION}}\n`],
  ])
})
afterAll(() => copy.remove())

async function started() {
  const world = await copy.startConsole()
  return { ...world, issue: (more: object = {}) => world.issue({ owner: 'gold', ...more }) }
}

test('the program compiles with the two changes: no list of fields is left to complete', {
  timeout: 600_000,
}, () => {
  expect(copy.filesWithErrors()).toEqual([])
})

describe('the admin API', () => {
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

test('it is a column of its row, and no gateway gets it', async () => {
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

test('the audit log says what it was and what it became', async () => {
  const { issue, edit, send } = await started()
  const { id } = (await issue()).body.key
  await edit(id, 1, { owner: 'silver' })
  const { entries } = (await send('GET', '/admin/v1/workspaces/ws_1/audit')).body
  expect(entries).toMatchObject([
    { action: 'key.edited', detail: { changes: { owner: { old: 'gold', new: 'silver' } } } },
    { action: 'key.issued', detail: { owner: 'gold' } },
  ])
})

test('the pages have a field for it, show it, and name it in a conflict', async () => {
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

test('commands take it, show it and clear it', async () => {
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
