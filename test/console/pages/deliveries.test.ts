import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createOneTimeLink } from '../../../src/console/sign-in/one-time-link.ts'
import { BrowserDouble } from '../../support/browser-double.ts'
import { startConsole } from '../../support/console.ts'
import { until } from '../../support/until.ts'
import { WebhookReceiver } from '../../support/webhook-receiver.ts'

const ORIGIN = 'http://localhost:8081'

/** A console with one person signed in, who has the workspace `ws_1`. */
async function signedIn(webhook = {}) {
  const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() }
  const person = {
    subject: 'ada',
    name: 'Ada',
    workspaces: ['ws_1'],
    administrator: false,
    role: 'manager',
  } as const
  const oneTimeLink = createOneTimeLink(person, clock, randomBytes)
  const running = await startConsole({ webhook, signIn: { publicUrl: ORIGIN }, parts: { oneTimeLink } })
  const browser = new BrowserDouble(ORIGIN, running.app)
  await browser.visit(oneTimeLink.path)
  const issue = () =>
    running.send('POST', '/admin/v1/workspaces/ws_1/keys', { name: 'k', scopes: ['files:read'] })
  return { running, browser, issue }
}

test('a page shows the state of each webhook delivery, and why one failed', async () => {
  const receiver = await WebhookReceiver.start()
  onTestFinished(() => receiver.stop())
  receiver.answer = (response, number) => response.writeHead(number === 1 ? 204 : 500).end()
  const { browser, issue } = await signedIn({
    url: receiver.url,
    secret: randomBytes(32).toString('base64'),
  })
  await issue()
  await until('the first is taken', () => receiver.received.length === 1)
  await issue()
  const page = async () => (await browser.visit('/workspaces/ws_1/deliveries')).text
  await until('both are shown', async () => {
    const text = await page()
    return text.includes('204, after 1 attempt') && text.includes('Response status 500, after 1 attempt')
  })
  expect(await page()).toMatch(/Waiting[\s\S]*next attempt[\s\S]*Delivered/)
})

test('the list is refreshed until a test has its response, though other events wait', async () => {
  const receiver = await WebhookReceiver.start()
  onTestFinished(() => receiver.stop())
  const { promise, resolve: respond } = Promise.withResolvers<void>()
  receiver.answer = async (response, number) => {
    if (number > 1) await promise
    response.writeHead(500).end()
  }
  const { browser, issue } = await signedIn({
    url: receiver.url,
    secret: randomBytes(32).toString('base64'),
  })
  const path = '/workspaces/ws_1/deliveries'
  const page = async () => (await browser.visit(`${path}?test=sent`)).text
  await issue()
  await until('the first waits', async () => (await page()).includes('Response status 500, after 1 attempt'))
  expect(await page()).not.toContain('data-refreshes')
  await browser.post(`${path}/test`, { _csrf: BrowserDouble.csrfTokenIn(await browser.visit(path)) })
  expect(await page()).toContain('data-refreshes="3"')
  respond()
  await until('the response is shown', async () => (await page()).split('after 1 attempt').length === 3)
  expect(await page()).not.toContain('data-refreshes')
})

test('an event that is not there changes nothing, and what is no id of an event is no page', async () => {
  const secret = randomBytes(32).toString('base64')
  const { browser } = await signedIn({ url: 'http://127.0.0.1:9/', secret })
  const path = '/workspaces/ws_1/deliveries'
  const _csrf = BrowserDouble.csrfTokenIn(await browser.visit(path))
  const id = 'msg_01ARZ3NDEKTSV4RRFFQ69G5FAV'
  for (const [text, status] of [
    [id, 303],
    [`x${id}`, 404],
    [`${id}X`, 404],
    ['msg_0', 404],
  ] as const) {
    const answer = await browser.post(`${path}/${text}/again`, { _csrf })
    expect([text, answer.status]).toEqual([text, status])
  }
})

test('deliveries of another workspace are not shown, and without a webhook the page says so', async () => {
  const { browser } = await signedIn()
  expect((await browser.visit('/workspaces/ws_2/deliveries')).status).toBe(404)
  expect((await browser.visit('/workspaces/ws_1/deliveries')).text).toContain('No webhook')
})

test('the page and the audit log name the key and its hint, and the page what happened to it', async () => {
  const receiver = await WebhookReceiver.start()
  onTestFinished(() => receiver.stop())
  const webhook = { url: receiver.url, secret: randomBytes(32).toString('base64') }
  const { browser, issue, running } = await signedIn(webhook)
  const { id, hint } = (await issue()).body.key
  const ofVersion = { headers: { 'if-match': '"1"' } }
  const edited = await running.send('PATCH', `/admin/v1/keys/${id}`, { description: 'of a test' }, ofVersion)
  expect(edited.status).toBe(200)
  for (const step of ['suspend', 'resume', 'rotate', 'revoke']) {
    expect((await running.send('POST', `/admin/v1/keys/${id}/${step}`, {})).status).toBeLessThan(300)
  }
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString()
  const old = { digest: 'a'.repeat(64), hint: '…abcd', name: 'old', scopes: ['files:read'], expiresAt }
  const imported = await running.send('POST', '/admin/v1/import', { keys: [{ ...old, workspaceId: 'ws_1' }] })
  expect(imported.text).toContain('"imported":1')
  const { text: deliveries } = await browser.visit('/workspaces/ws_1/deliveries')
  for (const step of ['issued', 'edited', 'suspended', 'resumed', 'rotated', 'revoked', 'imported']) {
    expect(deliveries).toContain(`Key ${step}`)
  }
  for (const page of ['deliveries', 'audit']) {
    const { text } = await browser.visit(`/workspaces/ws_1/${page}`)
    expect(text).toMatch(/class="key-name"[^>]*><bdi>k<\/bdi>/)
    expect(text).toContain(hint)
  }
})

test('a person sends a test, one a minute, and delivers an event again', async () => {
  const receiver = await WebhookReceiver.start()
  onTestFinished(() => receiver.stop())
  const { browser } = await signedIn({ url: receiver.url, secret: randomBytes(32).toString('base64') })
  const path = '/workspaces/ws_1/deliveries'
  const page = await browser.visit(path)
  const send = (to: string) => browser.post(to, { _csrf: BrowserDouble.csrfTokenIn(page) })
  const clicks = [await send(`${path}/test`), await send(`${path}/test`), await send(`${path}/test`)]
  // A minute may end between two of them.
  expect(clicks.map(({ headers }) => headers['location'])).toEqual([
    `${path}?test=sent`,
    expect.stringMatching(/\?test=(?:repeated|sent)$/),
    expect.stringMatching(/\?test=(?:repeated|sent)$/),
  ])
  await until('the test is taken', () => receiver.received.length > 0)
  const delivered = () => browser.visit(path)
  await until('the page says so', async () => (await delivered()).text.includes('Delivered'))
  const { text } = await delivered()
  expect(text.match(/>Test</g)?.length).toBeLessThanOrEqual(2)
  const again = /action="([^"]*again)"/.exec(text)?.[1] ?? ''
  const before = receiver.received.length
  await send(again)
  await until('it is sent again', () => receiver.received.length > before)
  expect(receiver.received.at(-1)?.headers['webhook-id']).toBe(/msg_\w+/.exec(again)?.[0])
  // An event of another workspace stays as it is.
  expect((await send(again.replace('ws_1', 'ws_2'))).status).toBe(404)
})
