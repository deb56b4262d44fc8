import { expect, test } from 'vitest'
import { digestKey } from '../../../src/domain/key/secret.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { ScriptedAnnouncer } from '../../support/scripted-announcer.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const W = '/workspaces/ws_1'

/** Two keys in each of two workspaces, two gateways that have confirmed nothing, and who changes the keys. */
async function started() {
  const clock = new ManualClock()
  const announcer = new ScriptedAnnouncer()
  const oidc = { administratorClaim: 'roles', administratorValue: 'admin' }
  const world = await startSignIn({ plans: ['free'], signIn: { oidc }, parts: { clock, announcer } })
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  const root = await world.signedIn({ sub: 'root', name: 'Root', workspaces: [], roles: ['admin'] })
  const digests = new Map<string, string>()
  const keys: string[] = []
  for (const workspaceId of ['ws_1', 'ws_2', 'ws_1', 'ws_2']) {
    const asked = { name: 'k', scopes: ['files:read'] }
    const { key, secret } = (await world.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, asked)).body
    keys.push(key.id)
    digests.set(key.id, digestKey(secret ?? ''))
    clock.advance(10)
  }
  const [own = '', other = '', last = '', otherLast = ''] = keys
  /** @param keyId null: the gateway only reports that it is there */
  const confirm = (name: string, keyId: string | null, version = 2) =>
    world.send('POST', '/internal/v1/confirmations', {
      gateway: { id: name, name },
      ...{ connected: true, leaving: false },
      confirmed: keyId === null ? [] : [{ digest: digests.get(keyId) ?? '', version }],
    })
  await confirm('pod-1', null)
  await confirm('pod-2', null)
  clock.advance(10)
  const change = (person: SignedIn, path: string, fields: Record<string, string | string[]>) =>
    person.browser.post(path, { _csrf: person.csrf, ...fields })
  return { clock, announcer, ada, root, confirm, change, own, other, last, otherLast }
}

const partLooksAgain = (text: string, path: string) => text.includes(`data-refreshes="3" data-from="${path}"`)
const pageLooksAgain = (text: string, path: string) =>
  text.includes(`<meta http-equiv="refresh" content="3; url='${path}'">`)

test.each([
  ['suspend', 'Keys suspended'],
  ['revoke', 'Keys revoked'],
  ['everything', 'Keys revoked'],
])(
  'after “%s” of several keys the progress looks again until the last gateway has confirmed',
  async (step, title) => {
    const { ada, own, last, confirm, change } = await started()
    const { text } =
      step === 'everything'
        ? await change(ada, `${W}/revoke-all`, { workspace: 'ws_1' })
        : await change(ada, `${W}/keys/selected`, { step, confirmed: '1', key: [own, last] })
    const path = `${W}/keys/progress?key=${last}`
    expect(text).toContain('Confirmed by 0 of 2 gateways')
    expect(partLooksAgain(text, path)).toBe(true)
    // What became of each key stays before a reader without the script, who gets a link.
    expect(pageLooksAgain(text, path)).toBe(false)
    expect(text).toContain(`<noscript><p><a href="${path}">`)
    await confirm('pod-1', last)
    const half = await ada.browser.visit(path)
    expect(half.text).toContain(`<h1>${title}</h1>`)
    expect(half.text).toContain('Confirmed by 1 of 2 gateways')
    expect([partLooksAgain(half.text, path), pageLooksAgain(half.text, path)]).toEqual([true, true])
    await confirm('pod-2', last)
    const done = await ada.browser.visit(path)
    expect(done.text).toContain('Confirmed by 2 of 2 gateways')
    expect([partLooksAgain(done.text, path), pageLooksAgain(done.text, path)]).toEqual([false, false])
  },
)

test('after resuming several keys it looks again too, and for two minutes at most', async () => {
  const { ada, own, last, clock, confirm, change } = await started()
  const chosen = { confirmed: '1', key: [own, last] }
  await change(ada, `${W}/keys/selected`, { step: 'suspend', ...chosen })
  const { text } = await change(ada, `${W}/keys/selected`, { step: 'resume', ...chosen })
  const path = `${W}/keys/progress?key=${last}`
  expect(partLooksAgain(text, path)).toBe(true)
  await confirm('pod-1', last, 3)
  clock.advance(121_000)
  await confirm('pod-2', null)
  const { text: late } = await ada.browser.visit(path)
  expect(late).toContain('<h1>Keys resumed</h1>')
  expect(late).toContain('No confirmation within one second from')
  expect(partLooksAgain(late, path)).toBe(false)
})

test('keys of several workspaces are announced once each of them is', async () => {
  const { root, own, otherLast, confirm, change, announcer } = await started()
  announcer.set('down')
  const chosen = { confirmed: '1', step: 'revoke', key: [own, otherLast] }
  const { text } = await change(root, '/keys/selected', chosen)
  const path = `/keys/progress?key=${otherLast}`
  expect(text).toContain('Not all announced yet')
  expect(partLooksAgain(text, path)).toBe(true)
  for (const name of ['pod-1', 'pod-2']) await confirm(name, otherLast)
  const waiting = await root.browser.visit(path)
  expect(waiting.text).toContain('Not all announced yet')
  expect(partLooksAgain(waiting.text, path)).toBe(true)
  announcer.set('ready')
  await expect.poll(async () => partLooksAgain((await root.browser.visit(path)).text, path)).toBe(false)
})

test('after a change of the plan it looks again too, for those who may change it', async () => {
  const { ada, root, last, clock, confirm, change } = await started()
  const { text } = await change(root, `${W}/plan`, { plan: 'free', confirmed: '1' })
  const path = `${W}/plan/progress?key=${last}`
  expect(text).toContain('Confirmed by 0 of 2 gateways')
  expect(partLooksAgain(text, path)).toBe(true)
  expect(text).toContain(`<noscript><p><a href="${path}">`)
  await confirm('pod-1', last)
  const half = await root.browser.visit(path)
  expect(half.text).toContain('<h1>Plan changed</h1>')
  expect(half.text).toContain('Confirmed by 1 of 2 gateways')
  expect([partLooksAgain(half.text, path), pageLooksAgain(half.text, path)]).toEqual([true, true])
  await confirm('pod-2', last)
  expect(partLooksAgain((await root.browser.visit(path)).text, path)).toBe(false)
  expect((await ada.browser.visit(path)).status).toBe(403)
  clock.advance(121_000)
  await confirm('pod-3', null)
  const { text: late } = await root.browser.visit(path)
  expect(late).toContain('Confirmed by 0 of 1 gateway')
  expect(partLooksAgain(late, path)).toBe(false)
})

test('a key that was never changed leads from the progress of a plan to the list', async () => {
  const { root, own, other } = await started()
  for (const key of [own, other, 'key_x', '']) {
    expect((await root.browser.visit(`${W}/plan/progress?key=${key}`)).url).toMatch(
      /\/workspaces\/ws_1\/keys$/,
    )
  }
})

test('a key of another workspace, one that was not changed and none at all lead to the list', async () => {
  const { ada, own, other, otherLast, root, change } = await started()
  await change(root, '/keys/selected', { confirmed: '1', step: 'revoke', key: [other, otherLast] })
  for (const key of [otherLast, own, 'key_x', '']) {
    expect((await ada.browser.visit(`${W}/keys/progress?key=${key}`)).url).toMatch(
      /\/workspaces\/ws_1\/keys$/,
    )
  }
  expect((await ada.browser.visit(`/keys/progress?key=${otherLast}`)).status).toBe(403)
})
