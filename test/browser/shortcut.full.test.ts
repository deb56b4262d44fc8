import type { Browser, Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

describe.skipIf(!has(CHROMIUM))('the key /', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  async function open(path: string, options = {}): Promise<Page> {
    const person = await visitor(browser, options)
    onTestFinished(() => person.close())
    await signIn(person, site, path)
    return person.page
  }
  const focused = (page: Page) => page.evaluate<string>('document.activeElement.id')
  const addressOf = (page: Page) => page.url().slice(site.origin.length)

  test.each([
    ['/workspaces/ws_1/keys', 'q', 'Name, description, hint or id, press /'],
    ['/workspaces/ws_1/refusals', 'request', 'X-Request-Id, press /'],
    ['/workspaces/ws_1/audit', 'keyId', 'key_…, press /'],
    ['/find-key', 'key', 'press /'],
  ])('leads to the search of a page, which says so: %s', async (path, id, placeholder) => {
    await site.issue({ name: 'to be found' })
    const page = await open(path)
    const search = page.locator(`#${id}`)
    expect([
      await search.getAttribute('aria-keyshortcuts'),
      await search.getAttribute('placeholder'),
    ]).toEqual(['/', placeholder])
    await page.keyboard.press('/')
    expect([await focused(page), await search.inputValue(), addressOf(page)]).toEqual([id, '', path])
  })

  test('leads from a page without a search to that of the keys', async () => {
    await site.issue({ name: 'to be found' })
    const page = await open('/workspaces/ws_1/usage')
    await page.keyboard.press('/')
    await page.waitForURL('**/workspaces/ws_1/keys#q')
    await expect.poll(() => focused(page)).toBe('q')
    await page.keyboard.type('found')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/keys?q=found*')
  })

  test('leads an administrator without a workspace to all keys', async () => {
    site.provider.person = { sub: 'root', name: 'Root', workspaces: ['ws_1'], roles: ['postern-admin'] }
    const page = await open('/people')
    await page.keyboard.press('/')
    await page.waitForURL('**/keys#q')
    await expect.poll(() => focused(page)).toBe('q')
  })

  test('is a character while a person types, and leaves no form and no secret', async () => {
    const page = await open('/workspaces/ws_1/keys/new')
    await page.getByLabel('Name').fill('')
    await page.getByLabel('Name').press('/')
    expect(await page.getByLabel('Name').inputValue()).toBe('/')
    await page.locator('h1').click()
    await page.keyboard.press('/')
    await page.getByLabel('files:read').check()
    await page.getByRole('button', { name: 'Issue' }).click()
    await page.locator('#secret').waitFor()
    await page.locator('h1').click()
    await page.keyboard.press('/')
    await page.getByRole('link', { name: 'I have saved it' }).click()
    await page.getByRole('heading', { name: '/' }).waitFor()
    await page.getByRole('button', { name: 'Revoke', exact: true }).click()
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('/')
    await page.getByRole('dialog').getByRole('link', { name: 'Keep it' }).waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('Control+/')
    await page.getByRole('link', { name: 'Usage', exact: true }).press('/')
    await page.waitForURL('**/workspaces/ws_1/keys#q')
  })
})
