import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, signIn, visitor } from '../support/browser.ts'
import { KEY_SERVICE_TOKEN, SIGNING_SECRET } from '../support/console.ts'
import { type ConsoleSite, startConsoleSite } from '../support/console-site.ts'
import { freePort } from '../support/free-port.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const API = '/workspaces/ws_1/api'

/** One origin for both, as an ingress gives them. */
function startProxy(port: number, targetOf: (request: IncomingMessage) => string): Server {
  const server = createServer((incoming, response) => {
    const { method, url = '/', headers } = incoming
    const target = new URL(url, targetOf(incoming))
    const outgoing = httpRequest(target, { method: method ?? 'GET', headers }, answer => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.pipe(response)
    })
    outgoing.on('error', () => response.destroy())
    incoming.pipe(outgoing)
  })
  return server.listen(port, '127.0.0.1')
}

describe.skipIf(!has(CHROMIUM))('the API reference', () => {
  let browser: Browser
  let site: ConsoleSite
  let apart: ConsoleSite
  let upstream: RecordingUpstream
  let gateway: Listening
  let proxy: Server
  const cookiesToApi: (string | undefined)[] = []
  beforeAll(async () => {
    browser = await launchBrowser()
    upstream = await RecordingUpstream.start()
    const publicPort = await freePort()
    const gatewayUrl = `http://127.0.0.1:${publicPort}`
    proxy = startProxy(publicPort, ({ url, headers }) => {
      if (url?.startsWith('/api/') !== true) return `http://127.0.0.1:${site.port}`
      cookiesToApi.push(headers.cookie)
      return gateway.urls.gateway
    })
    await once(proxy, 'listening')
    site = await startConsoleSite({ publicPort, gatewayUrl })
    apart = await startConsoleSite()
    gateway = await startPostern('gateway', {
      POSTERN_KEY_SERVICE_URL: site.internal,
      POSTERN_KEY_SERVICE_TOKEN: KEY_SERVICE_TOKEN,
      POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
      POSTERN_UPSTREAM_URL: upstream.url,
      POSTERN_DRAIN_DELAY_MS: '0',
    })
  })
  afterAll(async () => {
    await browser?.close()
    proxy?.closeAllConnections()
    proxy?.close()
    await gateway?.process.stop()
    await Promise.all([site?.stop(), apart?.stop(), upstream?.stop()])
  })

  test('sends a request with a pasted key, which stays in the page, and shows what the gateway answers', async () => {
    const { secret, hint } = await site.issue({ name: 'tried', scopes: ['workspace:read'] })
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, API)
    const card = page.locator('section[aria-labelledby=auth]')
    const files = page.locator('section[aria-labelledby=files]')
    await card.getByRole('button', { name: 'Send request' }).click()
    await card.getByRole('status').getByText('Paste a key above first').waitFor()
    await page.getByLabel('Key for trying requests').fill(secret)
    await card.getByRole('button', { name: 'Send request' }).click()
    await card.getByRole('status').getByText(hint).waitFor()
    await files.getByRole('button', { name: 'Send request' }).click()
    const refusal = await files.getByRole('status').getByText('scope_missing').textContent()
    expect(cookiesToApi).toEqual([undefined, undefined])
    // The page showed the same texts before.
    await files.locator('summary').click()
    const shown = await files.getByLabel('Response to a key without the scope').textContent()
    expect(shown).toContain(refusal?.split('\n').at(-1))
    await page.goto(`${site.origin}/workspaces/ws_1/keys`)
    await page.goBack({ waitUntil: 'commit' })
    expect(await page.getByLabel('Key for trying requests').inputValue()).toBe('')
    expect(ada.pageErrors).toEqual([])
    await ada.close()
  })

  test('offers commands alone if the API has another origin, or without JavaScript', async () => {
    for (const [where, javaScriptEnabled] of [
      [apart, true],
      [site, false],
    ] as const) {
      const ada = await visitor(browser, { javaScriptEnabled })
      await signIn(ada, where, API)
      await ada.page.getByText('curl -sS').first().waitFor()
      expect(await ada.page.getByRole('button', { name: 'Send request' }).count()).toBe(0)
      await ada.close()
    }
  })
})
