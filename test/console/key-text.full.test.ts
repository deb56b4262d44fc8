import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CopiedSources } from '../support/copied-sources.ts'

/**
 * A text of a key is an entry of a table and a migration, as docs/architecture.md says. These tests add one named `plan` to a copy of
 * the sources by these two changes alone, and follow it.
 */
const ENTRY =
  "  plan: { label: 'Plan', maxLength: 20, hint: 'What its owner pays for', help: 'what is paid for' },\n"
const MIGRATION =
  "  '9999_plan': database => database.schema.alterTable('keys').addColumn('plan', 'text').execute(),\n"

let copy: CopiedSources

beforeAll(() => {
  copy = new CopiedSources()
  copy.change('domain/key/key-texts.ts', [['} as const satisfies', `${ENTRY}} as const satisfies`]])
  // After the last migration.
  copy.change('console/schema.ts', [[/^\}\n$/m, `${MIGRATION}}\n`]])
})
afterAll(() => copy.remove())

async function started() {
  const world = await copy.startConsole()
  return { ...world, issue: (more: object = {}) => world.issue({ plan: 'gold', ...more }) }
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
    expect([issued.status, issued.body.key]).toMatchObject([201, { plan: 'gold' }])
    const { id } = issued.body.key
    const edited = await edit(id, 1, { plan: 'silver' })
    expect([edited.status, edited.body.key]).toMatchObject([200, { plan: 'silver', version: 2 }])
    for (const list of ['/admin/v1/workspaces/ws_1/keys', '/admin/v1/keys']) {
      expect((await send('GET', list)).body.keys).toMatchObject([{ plan: 'silver' }])
    }
    const rotated = await send('POST', `/admin/v1/keys/${id}/rotate`, {})
    expect(rotated.body).toMatchObject({ key: { plan: 'silver' }, replaced: { plan: 'silver' } })
    const cleared = await edit(rotated.body.key.id, 1, { plan: null })
    expect(cleared.body.key).toMatchObject({ plan: null })
  })

  test('says what it must be, and describes it', async () => {
    const { issue, send } = await started()
    const refused = await issue({ plan: 'p'.repeat(21) })
    const error = 'plan must be null or at most 20 characters, none of them a control character or line break'
    expect([refused.status, refused.body]).toMatchObject([400, { field: 'plan', error }])
    expect((await issue({ plan: `of wsk_${'a'.repeat(54)}` })).status).toBe(400)
    const document = JSON.parse((await send('GET', '/admin/v1/openapi.json')).text)
    expect(document.components.schemas.Key.properties).toHaveProperty('plan')
  })

  test('exports and imports it', async () => {
    const { issue, send } = await started()
    await issue()
    const line = JSON.parse((await send('GET', '/admin/v1/keys/export')).text)
    expect(line).toMatchObject({ plan: 'gold' })
    const other = await started()
    const imported = await other.send('POST', '/admin/v1/import', { keys: [line] })
    expect(JSON.parse(imported.text)).toMatchObject({ imported: 1 })
    expect((await other.send('GET', '/admin/v1/keys')).body.keys).toMatchObject([{ plan: 'gold' }])
    const secret = { ...line, digest: 'a'.repeat(64), plan: 'p'.repeat(21) }
    const refused = await other.send('POST', '/admin/v1/import', { keys: [secret] })
    expect(JSON.parse(refused.text).results).toMatchObject([{ status: 'invalid', field: 'plan' }])
  })
})

test('it is a column of its row, and no gateway gets it', async () => {
  const { issue, file, send } = await started()
  const { key } = (await issue()).body
  const database = new DatabaseSync(file, { readOnly: true })
  const { plan, digest } = database.prepare('select plan, digest from keys where id = ?').get(key.id) ?? {}
  database.close()
  expect(plan).toBe('gold')
  const found = await send('POST', '/internal/v1/lookups', { digests: [digest] })
  expect(found.text).toContain(key.id)
  expect(found.text).not.toContain('gold')
})

test('the audit log says what it was and what it became', async () => {
  const { issue, edit, send } = await started()
  const { id } = (await issue()).body.key
  await edit(id, 1, { plan: 'silver' })
  const { entries } = (await send('GET', '/admin/v1/workspaces/ws_1/audit')).body
  expect(entries).toMatchObject([
    { action: 'key.edited', detail: { changes: { plan: { old: 'gold', new: 'silver' } } } },
    { action: 'key.issued', detail: { plan: 'gold' } },
  ])
})

test('the pages have a field for it, show it, and name it in a conflict', async () => {
  const world = await started()
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
  const form = await ada.browser.visit('/workspaces/ws_1/keys/new')
  expect(form.text).toContain('<label for="plan">Plan</label>')
  expect(form.text).toContain('What its owner pays for')
  const once = /name="once" value="([^"]*)"/.exec(form.text)?.[1] ?? ''
  const fields = { name: 'build server', plan: 'gold', scopes: 'files:read', expiry: '90', date: '' }
  const sent = { _csrf: ada.csrf, once, allowedCidrs: '', ...fields }
  const wrong = await ada.browser.post('/workspaces/ws_1/keys/new', { ...sent, plan: 'p'.repeat(21) })
  expect([wrong.status, wrong.text]).toEqual([
    422,
    expect.stringContaining('This must be null or at most 20'),
  ])
  const issued = await ada.browser.post('/workspaces/ws_1/keys/new', sent)
  expect(issued.text).toContain('<dt>Plan</dt><dd><bdi>gold</bdi></dd>')
  const [key] = (await world.send('GET', '/admin/v1/keys')).body.keys
  const path = `/workspaces/ws_1/keys/${key?.id}`
  expect((await ada.browser.visit(path)).text).toContain('<dt>Plan</dt><dd><bdi>gold</bdi></dd>')
  expect((await ada.browser.visit(`${path}/edit`)).text).toContain('id="plan" name="plan" value="gold"')
  const edit = { _csrf: ada.csrf, name: 'build server', allowedCidrs: '', date: '', version: '1' }
  expect((await ada.browser.post(`${path}/edit`, { ...edit, plan: 'silver' })).status).toBe(303)
  const late = await ada.browser.post(`${path}/edit`, { ...edit, name: 'CI', plan: 'gold' })
  expect([late.status, late.text]).toEqual([
    412,
    expect.stringContaining('Plan: “<bdi>gold</bdi>” became “<bdi>silver</bdi>”'),
  ])
  // The person left the text as it was: the form now has the present one.
  expect(late.text).toContain('id="plan" name="plan" value="silver"')
})

test('commands take it, show it and clear it', async () => {
  const { postern, send } = await started()
  const where = ['--workspace', 'ws_1', '--scope', 'files:read']
  expect((await postern('keys', 'issue', ...where, '--plan', 'gold')).code).toBe(0)
  const [key] = (await send('GET', '/admin/v1/keys')).body.keys
  const id = key?.id ?? ''
  const shown = await postern('keys', 'show', id)
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringMatching(/^Plan +gold$/m)])
  expect((await postern('keys', 'edit', id, '--plan', 'silver')).code).toBe(0)
  expect((await send('GET', `/admin/v1/keys/${id}`)).body.key).toMatchObject({ plan: 'silver' })
  expect((await postern('keys', 'edit', id, '--clear', 'plan')).code).toBe(0)
  expect((await send('GET', `/admin/v1/keys/${id}`)).body.key).toMatchObject({ plan: null })
  expect((await postern('keys', 'edit', id, '--plan', 'x', '--clear', 'plan')).stderr).toContain(
    '--plan and --clear plan exclude each other',
  )
  expect((await postern('keys', 'issue', '--help')).stdout).toContain('what is paid for')
})
