import type { Browser, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { signIn, type Visitor, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'
import { until } from '../support/until.ts'

const NEW_KEY = '/workspaces/ws_1/keys/new'
const STEP_MS = 10_000

describe.skipIf(!has(CHROMIUM))('a secret that was shown once', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  async function issue({ page }: Visitor, name: string): Promise<string> {
    await page.goto(site.origin + NEW_KEY)
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('files:read').check()
    await page.getByRole('button', { name: 'Issue key' }).click()
    const secret = await page.locator('#secret').textContent()
    expect(secret).toMatch(/^wsk_/)
    return secret ?? ''
  }

  /** Navigates back or forward; the browser may refuse to show the page again. */
  async function step(page: Page, direction: 'goBack' | 'goForward'): Promise<string> {
    // Playwright does not notice that a page which the browser has kept is shown; the browser says so.
    const session = await page.context().newCDPSession(page)
    await session.send('Page.enable')
    const kept = new Promise(resolve => {
      session.on('Page.frameNavigated', ({ type }) => {
        if (type === 'BackForwardCacheRestore') resolve(null)
      })
    })
    await Promise.race([page[direction]({ timeout: STEP_MS }).catch(() => null), kept])
    return until('a page has loaded', () => page.content().catch(() => null))
  }

  test.each([
    ['with JavaScript', true],
    ['without', false],
  ])('cannot be reached with the back or forward button: %s', async (_, javaScriptEnabled) => {
    const ada = await visitor(browser, { javaScriptEnabled })
    await signIn(ada, site)
    const secret = await issue(ada, 'back and forward')
    const { page } = ada
    await page.getByRole('link', { name: 'I have saved it' }).click()
    await page.getByRole('heading', { name: 'back and forward' }).waitFor()
    const seen = [await step(page, 'goBack'), await step(page, 'goBack'), await step(page, 'goForward')]
    await page.goto(`${site.origin}/workspaces/ws_1/audit`)
    seen.push(await step(page, 'goBack'))
    for (const content of seen) expect(content).not.toContain(secret)
    if (javaScriptEnabled) expect(seen[0]).toMatch(/Key already issued|The secret is no longer shown/)
    await ada.close()
  })

  test('is in no URL, no storage and no cacheable response', async () => {
    const ada = await visitor(browser)
    await signIn(ada, site)
    const answers: { url: string; cacheControl: string }[] = []
    ada.page.on('response', answer => {
      const cacheControl = answer.headers()['cache-control'] ?? ''
      answers.push({ url: new URL(answer.url()).pathname, cacheControl })
    })
    const secret = await issue(ada, 'traces')
    expect(new URL(ada.page.url()).pathname).toMatch(/^\/workspaces\/ws_1\/keys\/key_\w+\/issued$/)
    expect(answers.filter(({ url }) => url === NEW_KEY).map(answer => answer.cacheControl)).toEqual([
      'no-store',
      'no-store',
    ])
    const stored = await ada.page.evaluate<string>(
      'JSON.stringify([localStorage, sessionStorage, history.state])',
    )
    expect(stored + JSON.stringify(await ada.context.storageState())).not.toContain(secret)
    await ada.close()
  })

  test('is not shown again after reloading, which issues no second key', async () => {
    const ada = await visitor(browser)
    await signIn(ada, site)
    const secret = await issue(ada, 'reloaded')
    await ada.page.reload()
    await ada.page.getByRole('heading', { name: 'Key already issued' }).waitFor()
    expect(await ada.page.content()).not.toContain(secret)
    await ada.page.getByRole('link', { name: 'All keys' }).click()
    const links = ada.page.getByRole('link', { name: 'reloaded' })
    await links.first().waitFor()
    await ada.page.waitForLoadState()
    expect(await links.count()).toBe(1)
    await ada.close()
  })

  test('differs between two tabs that each issue a key', async () => {
    const ada = await visitor(browser)
    await signIn(ada, site)
    const other = { ...ada, page: await ada.context.newPage() }
    await Promise.all([ada.page, other.page].map(page => page.goto(site.origin + NEW_KEY)))
    const secrets = [await issue(ada, 'first tab'), await issue(other, 'second tab')]
    expect(new Set(secrets).size).toBe(2)
    await ada.page.goto(`${site.origin}/workspaces/ws_1/keys`)
    await ada.page.getByRole('link', { name: 'first tab' }).waitFor()
    await ada.page.getByRole('link', { name: 'second tab' }).waitFor()
    await ada.close()
  })

  test('is shown in the tab that rotated first; the other tab reports that the key was already rotated', async () => {
    const { id } = await site.issue({ name: 'rotated twice' })
    const ada = await visitor(browser)
    await signIn(ada, site)
    const { page } = ada
    const late = await ada.context.newPage()
    for (const tab of [page, late]) await tab.goto(`${site.origin}/workspaces/ws_1/keys/${id}/rotate`)
    for (const tab of [page, late]) await tab.getByRole('button', { name: 'Rotate key' }).click()
    await page.locator('#secret').waitFor()
    await late.getByRole('heading', { name: 'Key cannot be rotated' }).waitFor()
    await late.getByText('It has already been rotated').waitFor()
    await ada.close()
  })
})
