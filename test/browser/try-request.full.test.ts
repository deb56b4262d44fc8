import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, overflowOf, signIn, visitor } from '../support/browser.ts'
import { KEY_SERVICE_TOKEN, SIGNING_SECRET } from '../support/console.ts'
import { type ConsoleSite, startConsoleSite } from '../support/console-site.ts'
import { freePort } from '../support/free-port.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const API = '/workspaces/ws_1/api'

describe.skipIf(!has(CHROMIUM))('the API reference of a console at another origin than the API', () => {
  let browser: Browser
  let site: ConsoleSite
  let upstream: RecordingUpstream
  let gateway: Listening
  beforeAll(async () => {
    browser = await launchBrowser()
    upstream = await RecordingUpstream.start()
    const gatewayPort = await freePort()
    site = await startConsoleSite({ gatewayUrl: `http://127.0.0.1:${gatewayPort}` })
    gateway = await startPostern('gateway', {
      POSTERN_GATEWAY_PORT: String(gatewayPort),
      POSTERN_KEY_SERVICE_URL: site.internal,
      POSTERN_KEY_SERVICE_TOKEN: KEY_SERVICE_TOKEN,
      POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
      POSTERN_UPSTREAM_URL: upstream.url,
      POSTERN_DRAIN_DELAY_MS: '0',
    })
  })
  afterAll(async () => {
    await browser?.close()
    await gateway?.process.stop()
    await Promise.all([site?.stop(), upstream?.stop()])
  })

  test('sends a request with a pasted key, which stays in its field, and shows what the gateway answers', async () => {
    const { secret, hint } = await site.issue({ name: 'tried', scopes: ['workspace:read'] })
    const ada = await visitor(browser)
    const { page } = ada
    const asked: string[] = []
    page.on('request', request => asked.push(`${request.method()} ${new URL(request.url()).origin}`))
    await signIn(ada, site, API)
    const card = page.locator('section[aria-labelledby=auth]')
    const files = page.locator('section[aria-labelledby=files]')
    await card.getByRole('button', { name: 'Send request' }).click()
    await card.getByRole('status').getByText('Paste a key above first').waitFor()
    const key = page.getByLabel('Key for trying requests')
    await key.fill(secret)
    asked.length = 0
    await card.getByRole('button', { name: 'Send request' }).click()
    await card.getByRole('status').getByText(hint).waitFor()
    await card
      .getByRole('status')
      .getByText(/^200 OK$/)
      .waitFor()
    expect(asked).toEqual([`POST ${site.origin}`])
    await files.getByLabel('limit').fill('0')
    await files.getByRole('button', { name: 'Send request' }).click()
    await files.getByRole('status').getByText('The key lacks the scope').waitFor()
    const refusal = await files.getByLabel('Body of the response').textContent()
    // The page showed the same texts before.
    await files.getByText('Responses', { exact: false }).first().click()
    const shown = await files.getByLabel('Response to a key without the scope').textContent()
    expect(shown).toContain(refusal)
    expect(await key.inputValue()).toBe(secret)
    expect(page.url()).toBe(site.origin + API)
    expect(await page.content()).not.toContain(secret)
    await page.goto(`${site.origin}/workspaces/ws_1/keys`)
    await page.goBack({ waitUntil: 'commit' })
    expect(await key.inputValue()).toBe('')
    expect(ada.pageErrors).toEqual([])
    await ada.close()
  })

  test('works with the keyboard alone, on a phone too', async () => {
    const { secret, hint } = await site.issue({ name: 'typed' })
    const ada = await visitor(browser, { viewport: { width: 360, height: 640 } })
    const { page } = ada
    await signIn(ada, site, API)
    await page.getByLabel('Key for trying requests').focus()
    await page.keyboard.insertText(secret)
    await page.keyboard.press('Enter')
    const card = page.locator('section[aria-labelledby=auth]')
    await card.getByRole('status').getByText(hint).waitFor()
    const files = page.locator('section[aria-labelledby=files]')
    await files.getByLabel('limit').focus()
    await page.keyboard.insertText('7')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Space')
    await files
      .getByRole('status')
      .getByText(/^200 OK$/)
      .waitFor()
    expect(upstream.requests.at(-1)).toContain('limit=7')
    expect(await overflowOf(page)).toBe(0)
    await ada.close()
  })

  test('works without JavaScript: the response is in the page, at its endpoint, and the key is not', async () => {
    const { secret, hint } = await site.issue({ name: 'plain' })
    const ada = await visitor(browser, { javaScriptEnabled: false })
    const { page } = ada
    await signIn(ada, site, API)
    const files = page.locator('section[aria-labelledby=files]')
    await page.getByLabel('Key for trying requests').fill(secret)
    await files.getByLabel('limit').fill('5')
    await files.getByRole('button', { name: 'Send request' }).click()
    await files
      .getByRole('status')
      .getByText(/^200 OK$/)
      .waitFor()
    expect(page.url()).toBe(`${site.origin}${API}#files`)
    expect(await files.getByLabel('limit').inputValue()).toBe('5')
    expect(await page.getByLabel('Key for trying requests').inputValue()).toBe('')
    expect(await page.content()).not.toContain(secret)
    expect(hint).not.toBe('')
    await ada.close()
  })

  test('says so if the session has ended meanwhile', async () => {
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, API)
    await page.context().clearCookies()
    await page.getByRole('button', { name: 'Send request' }).first().click()
    await page.getByText('No response from the console. Reload this page and try again.').waitFor()
    await ada.close()
  })
})
