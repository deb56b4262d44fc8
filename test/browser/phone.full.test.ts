import type { Browser, Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DENIAL_REASONS, denialRow } from '../../src/domain/denial.ts'
import { overflowOf, signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const PHONE = { width: 360, height: 740 }

describe.skipIf(!has(CHROMIUM))('on a phone', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  async function open(path: string, options = {}): Promise<Page> {
    const ada = await visitor(browser, { viewport: PHONE, ...options })
    onTestFinished(() => ada.close())
    await signIn(ada, site)
    await ada.page.goto(site.origin + path)
    return ada.page
  }
  const boxOf = async (page: Page, name: string) =>
    (await page.getByRole('navigation').getByRole('link', { name, exact: true }).boundingBox()) ?? {
      x: -1,
      y: -1,
      width: 0,
    }

  test('tabs stand in one line, which scrolls to the one that is open', async () => {
    const page = await open('/workspaces/ws_1/api')
    const [first, last] = [await boxOf(page, 'Keys'), await boxOf(page, 'API reference')]
    expect(last.y).toBe(first.y)
    expect(last.x + last.width).toBeLessThanOrEqual(PHONE.width)
    expect(await overflowOf(page)).toBe(0)
  })

  test('without JavaScript the tabs scroll too, and the page does not', async () => {
    const page = await open('/workspaces/ws_1/keys', { javaScriptEnabled: false })
    const [first, last] = [await boxOf(page, 'Keys'), await boxOf(page, 'API reference')]
    expect(last.y).toBe(first.y)
    expect(await overflowOf(page)).toBe(0)
  })

  test('five keys of a list fit on one screen', async () => {
    for (let count = 0; count < 6; count++) await site.issue({ name: `key ${count}`, expiresInDays: 60 })
    const page = await open('/workspaces/ws_1/keys')
    const ends = await page
      .locator('tbody tr')
      .evaluateAll(all => all.map(row => row.getBoundingClientRect().bottom))
    expect(ends).toHaveLength(6)
    expect(ends[4]).toBeLessThan(PHONE.height)
    expect(await overflowOf(page)).toBe(0)
  })

  test('a code of a rejection stands on one line', async () => {
    const { id: keyId } = await site.issue({ name: 'rejected' })
    const minute = Math.floor(Date.now() / 60_000) - 1
    const codes = DENIAL_REASONS.map(reason => denialRow(reason).code)
    const counts = [...new Set(codes)].map(code => ({ keyId, route: 'files', code, minute, count: 123_456 }))
    await site.reportUsage({ counts, refusals: [] })
    const page = await open(`/workspaces/ws_1/keys/${keyId}`)
    const table = page.locator('table.counts', { hasText: 'Not served, by code' })
    const lines = await table
      .locator('code')
      .evaluateAll(all => all.map(code => code.getClientRects().length))
    expect([...new Set(lines)]).toEqual([1])
    expect(lines.length).toBeGreaterThan(10)
    expect(await overflowOf(page)).toBe(0)
  })

  test('filters fold away, and apply as soon as one is chosen', async () => {
    await site.issue({ name: 'to be filtered', expiresInDays: 60 })
    const page = await open('/workspaces/ws_1/keys')
    expect(await page.getByLabel('Used').isVisible()).toBe(false)
    await page.locator('.fold > summary').click()
    await page.getByLabel('Used').selectOption('never')
    await page.waitForURL(/unused=never/)
    expect(await page.locator('.fold > summary').innerText()).toBe('Filters 1')
    expect(await overflowOf(page)).toBe(0)
  })
})
