import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createOneTimeLink } from '../../../src/control/sign-in/one-time-link.ts'
import { BrowserDouble } from '../../support/browser-double.ts'
import { startConsole } from '../../support/console.ts'
import { until } from '../../support/until.ts'
import { WebhookReceiver } from '../../support/webhook-receiver.ts'

const ORIGIN = 'http://localhost:8081'

/** A console with one person signed in, who has the workspace `ws_1`. */
async function signedIn(webhook = {}) {
  const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() }
  const person = { subject: 'ada', name: 'Ada', workspaces: ['ws_1'], administrator: false }
  const oneTimeLink = createOneTimeLink(person, clock, randomBytes)
  const running = await startConsole({ webhook, signIn: { publicUrl: ORIGIN }, parts: { oneTimeLink } })
  const browser = new BrowserDouble(ORIGIN, running.app)
  await browser.visit(oneTimeLink.path)
  const issue = () =>
    running.ask('POST', '/admin/v1/workspaces/ws_1/keys', { name: 'k', scopes: ['files:read'] })
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
  expect((await browser.visit('/workspaces/ws_1/audit')).text).toContain('Webhook deliveries')
})

test('deliveries of another workspace are not shown, and without a webhook the page does not exist', async () => {
  const { browser } = await signedIn()
  expect((await browser.visit('/workspaces/ws_2/deliveries')).status).toBe(404)
  expect((await browser.visit('/workspaces/ws_1/deliveries')).status).toBe(404)
  expect((await browser.visit('/workspaces/ws_1/audit')).text).not.toContain('webhook')
})
