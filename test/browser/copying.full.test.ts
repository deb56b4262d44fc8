import type { Browser, Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { barriersOf, overflowOf, signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const PHONE = { width: 360, height: 740 }
const READABLE = { permissions: ['clipboard-read', 'clipboard-write'] }

describe.skipIf(!has(CHROMIUM))('an id is copied with one click', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  /** The audit log of a workspace, with its newest entry open. */
  async function openEntry(options = {}): Promise<Page> {
    await site.issue({ name: 'to be copied' })
    const ada = await visitor(browser, options)
    onTestFinished(() => ada.close())
    await signIn(ada, site, '/workspaces/ws_1/audit')
    await ada.page.locator('.entries summary').first().click()
    return ada.page
  }
  const buttonOf = (page: Page, label: string) =>
    page
      .locator('.entries > li')
      .first()
      .locator('dl > div', { hasText: label })
      .getByRole('button', { name: 'Copy' })
  const copied = (page: Page) => page.evaluate<string>('navigator.clipboard.readText()')

  test('request id and entry id of an entry of the audit log', async () => {
    const page = await openEntry(READABLE)
    await buttonOf(page, 'Request id').click()
    await page.getByRole('status').getByText('Copied').waitFor({ state: 'attached' })
    expect(await copied(page)).toMatch(/^[0-9a-f]{32}$/)
    await buttonOf(page, 'Entry').click()
    await expect.poll(() => copied(page)).toMatch(/^audit_[0-9A-Z]{26}$/)
  })

  test('request id of a rejection, also one of the greatest length on a phone', async () => {
    const { id: keyId } = await site.issue({ name: 'rejected' })
    const requestId = `client-${'x'.repeat(121)}`
    const refusal = { keyId, at: Date.now(), route: 'files', requestId, address: '192.0.2.0/24' }
    await site.reportUsage({
      counts: [],
      refusals: [{ ...refusal, code: 'not_found', reason: 'other_workspace' }],
    })
    const ada = await visitor(browser, { ...READABLE, viewport: PHONE })
    onTestFinished(() => ada.close())
    await signIn(ada, site, '/workspaces/ws_1/refusals')
    const { page } = ada
    await page.locator('.entries summary').first().click()
    await buttonOf(page, 'Request id').click()
    await expect.poll(() => copied(page)).toBe(requestId)
    expect([await barriersOf(page), await overflowOf(page)]).toEqual([[], 0])
  })

  test('the button says so for two seconds, and can be used again', async () => {
    const page = await openEntry(READABLE)
    const startMs = Date.now()
    await page.clock.install({ time: startMs })
    await page.clock.pauseAt(startMs + 60_000)
    const button = buttonOf(page, 'Request id')
    const element = await button.elementHandle()
    const label = () => element?.textContent()
    await button.click()
    await page.getByRole('status').getByText('Copied').waitFor({ state: 'attached' })
    expect(await label()).toBe('Copied')
    await page.clock.runFor(1900)
    expect(await label()).toBe('Copied')
    await page.clock.runFor(200)
    expect(await label()).toBe('Copy')
    await button.click()
    await page.getByRole('status').getByText('Copied').waitFor({ state: 'attached' })
  })

  test.each([{}, { viewport: PHONE }])('the buttons are accessible and fit: %o', async options => {
    const page = await openEntry(options)
    await buttonOf(page, 'Request id').waitFor()
    expect([await barriersOf(page), await overflowOf(page)]).toEqual([[], 0])
  })

  test('without JavaScript there is no button that does nothing', async () => {
    const page = await openEntry({ javaScriptEnabled: false })
    expect(await page.locator('button[data-copies]:visible').count()).toBe(0)
  })
})
