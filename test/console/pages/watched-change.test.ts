import { expect, test } from 'vitest'
import { CONFIRMATIONS_KEPT_MS } from '../../../src/console/announcing/gateway-rows.ts'
import { digestKey } from '../../../src/domain/key/secret.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { ScriptedAnnouncer } from '../../support/scripted-announcer.ts'
import { startSignIn } from '../../support/signed-in.ts'

const KEYS = '/workspaces/ws_1/keys'

/** A manager, a key, and gateways of which one says nothing unless a test lets it. */
async function started() {
  const clock = new ManualClock()
  const announcer = new ScriptedAnnouncer()
  const world = await startSignIn({ parts: { clock, announcer } })
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  const { key, secret } = (
    await world.send('POST', `/admin/v1${KEYS}`, { name: 'k', scopes: ['files:read'] })
  ).body
  const confirm = (name: string, version?: number) =>
    world.send('POST', '/internal/v1/confirmations', {
      gateway: { id: name, name },
      connected: true,
      leaving: false,
      confirmed: version === undefined ? [] : [{ digest: digestKey(secret ?? ''), version }],
    })
  await confirm('pod-1')
  await confirm('pod-2')
  clock.advance(10)
  const path = `${KEYS}/${key.id}`
  const act = (step: string, fields = {}) =>
    ada.browser.post(`${path}/${step}`, { _csrf: ada.csrf, ...fields })
  const progress = () => ada.browser.visit(`${path}/progress`)
  return { ...world, announcer, clock, ada, confirm, act, progress, path }
}

const looksAgain = (text: string, path: string) => [
  text.includes(`<meta http-equiv="refresh" content="3; url='${path}/progress'">`),
  text.includes(`data-refreshes="3" data-from="${path}/progress"`),
]

test.each([
  ['revoke', 'Key revoked'],
  ['suspend', 'Key suspended'],
])(
  'the page after “%s” looks again while a gateway has not confirmed, and stops when all have',
  async (step, title) => {
    const { act, progress, confirm, path } = await started()
    const { text } = await act(step)
    expect(looksAgain(text, path)).toEqual([true, true])
    await confirm('pod-1', 2)
    const half = await progress()
    expect(half.text).toContain(`<h1>${title}</h1>`)
    expect(half.text).toContain('Confirmed by 1 of 2 gateways')
    expect(looksAgain(half.text, path)).toEqual([true, true])
    await confirm('pod-2', 2)
    const done = await progress()
    expect(done.text).toContain('Confirmed by 2 of 2 gateways')
    expect(looksAgain(done.text, path)).toEqual([false, false])
  },
)

test('it looks again while the change is not announced, also if no gateway has to confirm it', async () => {
  const { act, progress, announcer, path, confirm } = await started()
  announcer.set('down')
  const { text } = await act('revoke')
  await confirm('pod-1', 2)
  await confirm('pod-2', 2)
  expect(text).toContain('Not announced yet')
  expect(looksAgain((await progress()).text, path)).toEqual([true, true])
  announcer.set('ready')
  const { text: announced } = await progress()
  expect(announced).toContain('Announced')
  expect(looksAgain(announced, path)).toEqual([false, false])
})

test('it looks again for two minutes after the change, and not for ever', async () => {
  const { act, progress, confirm, clock, path } = await started()
  await act('revoke')
  await confirm('pod-1', 2)
  clock.advance(119_000)
  await confirm('pod-2')
  expect(looksAgain((await progress()).text, path)).toEqual([true, true])
  clock.advance(2_000)
  const { text } = await progress()
  expect(text).toContain('No confirmation within one second from')
  expect(looksAgain(text, path)).toEqual([false, false])
})

test('a rotation without overlap shows in place how the old key’s revocation goes on, and its page with the secret stays', async () => {
  const { act, path, ada } = await started()
  const once = /name="once" value="([^"]+)"/.exec((await ada.browser.visit(`${path}/rotate`)).text)?.[1] ?? ''
  const { text } = await act('rotate', { overlap: '0', expiry: '30', date: '', once, confirmed: 'yes' })
  expect(text).toContain('Copy the secret now')
  expect(looksAgain(text, path)).toEqual([false, true])
})

test('the page after a resumption does so too, and is no longer there once its confirmations are deleted', async () => {
  const { act, progress, confirm, clock, path } = await started()
  await act('suspend')
  clock.advance(10)
  expect(looksAgain((await act('resume')).text, path)).toEqual([true, true])
  await confirm('pod-1', 3)
  const half = await progress()
  expect(half.text).toContain('<h1>Key resumed</h1>')
  expect(half.text).toContain('Confirmed by 1 of 2 gateways')
  expect(looksAgain(half.text, path)).toEqual([true, true])
  await confirm('pod-2', 3)
  const done = await progress()
  expect(done.text).toContain('Confirmed by 2 of 2 gateways')
  expect(looksAgain(done.text, path)).toEqual([false, false])
  clock.advance(CONFIRMATIONS_KEPT_MS / 2)
  expect((await progress()).text).toContain('<h1>Key resumed</h1>')
  clock.advance(CONFIRMATIONS_KEPT_MS / 2 + 1)
  expect((await progress()).url).toMatch(new RegExp(`${path}$`))
})

test('a key whose state was never changed has no such page, nor has one that the person may not see', async () => {
  const { act, progress, signedIn, path } = await started()
  expect((await progress()).url).toMatch(new RegExp(`${path}$`))
  await act('suspend')
  const eve = await signedIn({ sub: 'eve', name: 'Eve', workspaces: ['ws_2'] })
  expect((await eve.browser.visit(`${path}/progress`)).status).toBe(404)
})
