import type { Browser, Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { overflowOf, signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'
import { until } from '../support/until.ts'

const NARROW = { width: 360, height: 740 }
const HOSTILE = '<img src=x onerror=alert(1)>'
const REQUEST_ID = '7f3c9a52-request'

describe.skipIf(!has(CHROMIUM))('usage and rejections in a browser', () => {
  let browser: Browser
  let site: ConsoleSite
  let keyId: string
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })
  beforeAll(async () => {
    keyId = (await site.issue({ name: HOSTILE })).id
    const now = { keyId, route: 'files', minute: Math.floor(Date.now() / 60_000) }
    await site.reportUsage({
      counts: [
        { ...now, code: 'ok', count: 1200 },
        { ...now, code: 'not_found', count: 3 },
      ],
      refusals: [
        {
          ...{ keyId, route: 'files', at: Date.now(), requestId: REQUEST_ID, address: '192.0.2.0/24' },
          ...{ code: 'not_found', reason: 'other_workspace' },
        },
      ],
    })
  })

  /** Presses Tab until the element with this text has focus. */
  async function tabTo(page: Page, text: string): Promise<void> {
    for (let stops = 0; stops < 40; stops++) {
      await page.keyboard.press('Tab')
      const focused = await page.evaluate<string>(
        '(e => (e.labels?.[0] ?? e).textContent.trim())(document.activeElement)',
      )
      if (focused === text) return
    }
    throw new Error(`${text} cannot be reached with Tab`)
  }

  test('with a keyboard, a user chooses a span and reads the numbers of the chart', async () => {
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, `/workspaces/ws_1/keys/${keyId}`)
    await tabTo(page, '30 days')
    await page.keyboard.press('Enter')
    await page.waitForURL('**?range=30d#usage')
    const chart = page.getByRole('img', { name: 'Requests in 30 days: 1,200 served, 3 not served' })
    await chart.waitFor()
    expect(await page.getByRole('link', { name: '30 days' }).getAttribute('aria-current')).toBe('true')
    const numbers = page.getByRole('table', { name: 'Requests by day, in UTC' })
    expect(await numbers.isVisible()).toBe(false)
    await tabTo(page, 'Numbers of the chart')
    await page.keyboard.press('Enter')
    await numbers.waitFor()
    expect(await numbers.getByRole('row').last().innerText()).toMatch(/so far\s+1,200\s+3\s+99\.75%/)
    await ada.close()
  })

  test('on a phone without JavaScript, a tap on a bar shows its numbers, and other days can be chosen', async () => {
    const ada = await visitor(browser, { viewport: NARROW, javaScriptEnabled: false, hasTouch: true })
    const { page } = ada
    await signIn(ada, site, '/workspaces/ws_1/usage')
    const tip = page.getByText('1,200 served')
    expect(await tip.isVisible()).toBe(false)
    const bars = page.locator('.points > span')
    await bars.last().tap()
    await tip.waitFor()
    expect(await tip.innerText()).toMatch(/so far\s+1,200 served\s+3 not served\s+Success rate 99\.75%/)
    await bars.first().tap()
    await page.getByText('No requests', { exact: false }).first().waitFor()
    expect([await tip.isVisible(), await overflowOf(page)]).toEqual([false, 0])
    await page.getByText('Other days').tap()
    await page.getByLabel('First day').fill(new Date(Date.now() - 3 * 86_400_000).toISOString().slice(0, 10))
    await page.getByRole('button', { name: 'Show' }).tap()
    await page.waitForURL('**/usage?range=custom&from=*&to=*#requests')
    await page.getByText('A bar is a day').waitFor()
    await page.getByText('1,203').waitFor()
    expect(await overflowOf(page)).toBe(0)
    await ada.close()
  })

  test('a page of usage that is watched shows new requests by itself, and leaves what is open', async () => {
    const ada = await visitor(browser)
    const { page } = ada
    await page.clock.install()
    const usual = site.provider.person
    site.provider.person = { ...usual, workspaces: ['ws_2'] }
    await signIn(ada, site, '/workspaces/ws_2/usage')
    site.provider.person = usual
    const other = await site.issue({ name: 'watched' }, 'ws_2')
    const report = (count: number) =>
      site.reportUsage({
        ...{ gateway: `gateway-${count}`, refusals: [] },
        counts: [
          { keyId: other.id, route: 'files', code: 'ok', minute: Math.floor(Date.now() / 60_000), count },
        ],
      })
    const shows = async (text: string) => {
      const seen = page.locator('.figures').getByText(text, { exact: true }).first()
      await until(`the page shows ${text}`, async () => {
        await page.clock.runFor(10_000)
        return seen.isVisible()
      })
    }
    await page.mouse.move(5, 5)
    await report(41)
    await shows('41')
    await page.getByText('Numbers of the chart').click()
    await page.evaluate('document.activeElement.blur()')
    await page.mouse.move(5, 5)
    await report(1)
    await shows('42')
    expect(await page.getByRole('table', { name: 'Requests by hour, in UTC' }).isVisible()).toBe(true)
    // Nothing is asked for that is not watched: a request keeps the session open.
    const asked: string[] = []
    await page.clock.runFor(5 * 60_000)
    page.on('request', request => asked.push(request.url()))
    await page.clock.runFor(60_000)
    expect(asked).toEqual([])
    await ada.close()
  })

  test('on a phone without JavaScript, an integrator pastes a request id and sees why it was rejected', async () => {
    const ada = await visitor(browser, { viewport: NARROW, javaScriptEnabled: false })
    const { page } = ada
    await signIn(ada, site, '/workspaces/ws_1/keys')
    await page.getByRole('link', { name: 'Rejections' }).click()
    await page.getByLabel('Request id').fill(` ${REQUEST_ID} `)
    await page.keyboard.press('Enter')
    const line = page.locator('.entries summary')
    await line.click()
    await line.getByText('The path names another workspace than the one of the key').waitFor()
    await page.getByRole('definition').filter({ hasText: REQUEST_ID }).waitFor()
    expect(await overflowOf(page)).toBe(0)
    await page.getByRole('link', { name: HOSTILE }).click()
    await page.getByRole('heading', { name: HOSTILE }).waitFor()
    await page.getByRole('link', { name: 'Rejections of this key' }).click()
    expect(await page.getByLabel('Key id').inputValue()).toBe(keyId)
    await page.getByRole('link', { name: 'Show all rejections' }).waitFor()
    expect([await line.count(), await overflowOf(page)]).toEqual([1, 0])
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'CSV' }).click(),
    ])
    expect(file.suggestedFilename()).toBe('rejections-ws_1.csv')
    await ada.close()
  })

  test('an administrator sees all workspaces by use, and opens one', async () => {
    const grace = await visitor(browser, { viewport: NARROW })
    const { page, pageErrors } = grace
    site.provider.person = { sub: 'grace', name: 'Grace', workspaces: [], roles: ['postern-admin'] }
    await signIn(grace, site, '/workspaces')
    await page.getByRole('link', { name: 'Usage of all workspaces' }).click()
    await page.getByRole('row', { name: 'ws_1 1,200 3' }).waitFor()
    await page.getByRole('link', { name: 'ws_1' }).click()
    await page.getByRole('heading', { name: 'Busiest keys' }).waitFor()
    expect([await overflowOf(page), pageErrors]).toEqual([0, []])
    await grace.close()
  })
})
