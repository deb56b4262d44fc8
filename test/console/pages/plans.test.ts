import { expect, test } from 'vitest'
import type { PrepareReload } from '../../../src/config/reloadable.ts'
import type { Config } from '../../../src/config/schema/schema.ts'
import { consoleConfig } from '../../support/console.ts'
import { startSignIn } from '../../support/signed-in.ts'

const W = '/workspaces/ws_1'

const ADMINISTRATOR = 'postern-admin'

async function started(plans: readonly string[]) {
  const prepares: PrepareReload<Config>[] = []
  const world = await startSignIn({
    plans,
    parts: { onReload: prepare => void prepares.push(prepare) },
    signIn: { oidc: { administratorClaim: 'roles', administratorValue: ADMINISTRATOR } },
  })
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada Lovelace', roles: [ADMINISTRATOR] })
  const issue = async (more: object = {}) =>
    (await ada.call('POST', `${W}/keys`, { name: 'build server', scopes: ['files:read'], ...more })).body.key
  const post = (path: string, fields: Record<string, string>) =>
    ada.browser.post(path, { _csrf: ada.csrf, ...fields })
  const reload = (names: readonly string[]) => {
    for (const apply of prepares.map(prepare => prepare(consoleConfig({ plans: names })))) apply()
  }
  return { world, ada, issue, post, reload }
}

test('the plan of a workspace is changed after a page that names how many keys it concerns, and shows who confirmed it', async () => {
  const { ada, issue, post } = await started(['free', 'business'])
  const { id } = await issue()
  await issue()
  expect((await ada.browser.visit(`${W}/keys`)).text).toContain('Plan of this workspace: none')
  const asked = await post(`${W}/plan`, { plan: 'business' })
  expect(asked.text).toContain('2 keys')
  expect((await ada.call('GET', `/keys/${id}`)).body.key.plan).toBe(null)
  const done = await post(`${W}/plan`, { plan: 'business', confirmed: '1' })
  expect(done.text).toContain('has plan <strong>business</strong>. This step changed 2 keys')
  expect(done.text).toContain('id="progress"')
  expect((await ada.call('GET', `/keys/${id}`)).body.key.plan).toBe('business')
  expect((await ada.browser.visit(`${W}/keys/${id}`)).text).toContain('<dt>Plan</dt><dd>business</dd>')
  expect((await ada.browser.visit(`${W}/keys/new`)).text).toContain('<option value="business" selected>')
  expect((await ada.browser.visit(`${W}/audit`)).text).toContain('Plan of the workspace changed')
})

test('the next step of a change whose plan someone else has replaced says so, and shows the plan that holds', async () => {
  const { issue, post } = await started(['free', 'business'])
  const { id } = await issue()
  await post(`${W}/plan`, { plan: 'business', confirmed: '1' })
  const rest = await post(`${W}/plan`, { plan: 'free', confirmed: '1', until: id })
  expect(rest.status).toBe(422)
  expect(rest.text).toContain('The plan was changed again. All keys get the plan below')
  expect(rest.text).toContain('<option value="business" selected>')
})

test('administrators see how many keys and workspaces have each plan, and plans that the settings no longer name', async () => {
  const { ada, issue, reload } = await started(['free', 'business'])
  await issue({ plan: 'free' })
  await issue({ plan: 'free' })
  const ended = await issue({ plan: 'business' })
  await issue()
  await ada.call('POST', '/workspaces/ws_2/keys', { name: 'other', scopes: ['files:read'], plan: 'free' })
  await ada.call('POST', `/keys/${ended.id}/revoke`)
  const shown = async () => {
    const { text } = await ada.browser.visit('/plans')
    return text.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')
  }
  const free = await shown()
  expect(free).toContain('free Keys 3 Workspaces 2')
  expect(free).toContain('business Keys 0 Workspaces 0')
  expect(free).toContain('No plan Keys 1 Workspaces 1')
  expect(free).not.toContain('unknown plan')
  reload(['business'])
  const gone = await shown()
  expect(gone).toContain('free unknown plan Keys 3 Workspaces 2')
  expect(gone).toContain('postern keys list --plan free lists them')
})

test('the question before a change of plan names keys only where there are some', async () => {
  const { issue, post } = await started(['free', 'business'])
  const question = async () => (await post(`${W}/plan`, { plan: 'business' })).text
  expect(await question()).toContain('</strong>. It applies to keys that are issued later.')
  await issue()
  expect(await question()).toContain('. It applies to 1 key, also')
})

test('a form of a key that was opened before shows the new plan of the workspace, and does not put the old one back', async () => {
  const { issue, post } = await started(['free', 'business'])
  const { id } = await issue({ plan: null })
  await post(`${W}/plan`, { plan: 'business', confirmed: '1' })
  const form = { name: 'renamed', description: '', allowedCidrs: '', date: '', plan: '', version: '1' }
  const late = await post(`${W}/keys/${id}/edit`, form)
  expect(late.status).toBe(412)
  expect(late.text).toContain('Plan: empty became “<bdi>business</bdi>”')
  expect(late.text).toContain('<option value="business" selected>')
})

test('keys are filtered by plan, and a key gets none that the settings do not name', async () => {
  const { ada, issue, post } = await started(['free', 'business'])
  const { id } = await issue({ plan: 'free' })
  await issue({ name: 'other', plan: 'business' })
  const { text } = await ada.browser.visit(`${W}/keys?plan=free`)
  expect([text.includes('build server'), text.includes('>other<')]).toEqual([true, false])
  const form = {
    name: 'build server',
    description: '',
    allowedCidrs: '',
    date: '',
    plan: 'gold',
    version: '1',
  }
  const refused = await post(`${W}/keys/${id}/edit`, form)
  expect([refused.status, refused.text]).toEqual([
    422,
    expect.stringContaining('This must be null or one of business, free'),
  ])
})

test('pages say nothing of plans where none is configured', async () => {
  const { ada, issue } = await started([])
  const { id } = await issue()
  for (const path of [`${W}/keys`, `${W}/keys/new`, `${W}/keys/${id}`, `${W}/keys/${id}/edit`]) {
    expect((await ada.browser.visit(path)).text).not.toMatch(/\bplan\b/i)
  }
})

test('who is limited to workspaces neither sees a choice of plans nor makes one: keys have the plan of their workspace', async () => {
  const { world, ada, post } = await started(['free', 'business'])
  await post(`${W}/plan`, { plan: 'free', confirmed: '1' })
  const bob = await world.signedIn({ sub: 'bob', name: 'Bob', workspaces: ['ws_1'] })
  const issued = await bob.call('POST', `${W}/keys`, { name: 'importer', scopes: ['files:read'] })
  const { id } = issued.body.key
  expect(issued.body.key.plan).toBe('free')

  for (const path of [`${W}/keys/new`, `${W}/keys/${id}/edit`]) {
    expect((await bob.browser.visit(path)).text).not.toContain('name="plan"')
  }
  const listed = (await bob.browser.visit(`${W}/keys`)).text
  expect([listed.includes('Plan of this workspace'), listed.includes('Change the plan')]).toEqual([
    true,
    false,
  ])
  expect((await bob.browser.visit(`${W}/plan`)).status).toBe(403)
  const form = { description: '', allowedCidrs: '', date: '', plan: 'business', version: '1' }
  await bob.browser.post(`${W}/keys/${id}/edit`, { _csrf: bob.csrf, name: 'renamed', ...form })
  await bob.browser.post(`${W}/plan`, { _csrf: bob.csrf, plan: 'business', confirmed: '1' })

  const forbidden = { status: 403, body: { code: 'forbidden' } }
  const chosen = { name: 'importer', scopes: ['files:read'], plan: 'business' }
  expect(await bob.call('POST', `${W}/keys`, chosen)).toMatchObject(forbidden)
  expect(await bob.call('PUT', `${W}/plan`, { plan: 'business' })).toMatchObject(forbidden)
  for (const plan of ['business', null]) {
    const headers = { 'x-csrf-token': bob.csrf, 'if-match': '"2"' }
    expect(await bob.call('PATCH', `/keys/${id}`, { plan }, headers)).toMatchObject(forbidden)
  }
  expect((await ada.call('GET', `/keys/${id}`)).body.key).toMatchObject({ name: 'renamed', plan: 'free' })
  expect((await ada.call('GET', `${W}/plan`)).body).toEqual({ plan: 'free' })
})
