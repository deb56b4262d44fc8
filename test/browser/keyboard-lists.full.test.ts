import type { Browser, Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { copyByKeyboard, focusedName, tabTo } from '../support/keyboard.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const ROOT = { sub: 'root', name: 'Root', workspaces: ['ws_1'], roles: ['postern-admin'] }

describe.skipIf(!has(CHROMIUM))('with a keyboard alone', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  async function open(path: string): Promise<Page> {
    const person = await visitor(browser, { permissions: ['clipboard-read', 'clipboard-write'] })
    onTestFinished(async () => {
      expect(person.pageErrors).toEqual([])
      await person.close()
    })
    await signIn(person, site, path)
    return person.page
  }
  const headed = (page: Page, name: string) => page.getByRole('heading', { name, exact: true }).waitFor()
  const searchOf = (page: Page) => new URL(page.url()).searchParams

  test('a user searches, filters and orders a list of keys', async () => {
    await site.issue({ name: 'nightly import', scopes: ['files:read'] })
    await site.issue({ name: 'web shop', scopes: ['workspace:read'] })
    const page = await open('/workspaces/ws_1/keys')
    const { keyboard } = page
    const links = (name: string) => page.getByRole('link', { name, exact: true }).count()

    await keyboard.press('/')
    await keyboard.type('impor')
    await keyboard.press('Enter')
    await page.waitForURL('**/keys?q=impor')
    expect([await links('nightly import'), await links('web shop')]).toEqual([1, 0])

    await keyboard.press('/')
    await keyboard.press('Escape')
    expect(await page.getByRole('searchbox', { name: 'Search' }).inputValue()).toBe('')
    const before = page.url()
    await tabTo(page, 'Scope')
    await keyboard.press('ArrowDown')
    await tabTo(page, 'Used')
    await keyboard.press('ArrowDown')
    // With the keyboard, a step through the choices loads no page.
    expect(page.url()).toBe(before)
    await tabTo(page, 'Search')
    await keyboard.press('Enter')
    await page.waitForURL('**unused=never')
    const scope = searchOf(page).get('scope')
    expect([...searchOf(page).keys()]).toEqual(['scope', 'unused'])
    expect([await links('nightly import'), await links('web shop')]).toEqual(
      scope === 'files:read' ? [1, 0] : [0, 1],
    )

    await tabTo(page, /^Active/)
    await keyboard.press('Enter')
    await page.waitForURL('**state=active*')
    expect(searchOf(page).get('scope')).toBe(scope)
    await tabTo(page, 'Expires')
    await keyboard.press('Enter')
    await page.waitForURL('**sort=expiresAt*')
  })

  test('a user suspends several keys after a question, and can change their mind at it', async () => {
    await site.issue({ name: 'first of two' })
    await site.issue({ name: 'second of two' })
    const list = '/workspaces/ws_1/keys?q=of+two&sort=name'
    const page = await open('/workspaces/ws_1/keys')
    await page.goto(site.origin + list)
    const { keyboard } = page
    const selected = page.locator('[data-selected]')

    await tabTo(page, 'Select first of two')
    await keyboard.press('Space')
    expect(await selected.textContent()).toBe('1 selected')
    await tabTo(page, 'All of this page')
    await keyboard.press('Space')
    expect(await selected.textContent()).toBe('2 selected')
    await tabTo(page, 'Suspend')
    await keyboard.press('Enter')
    await headed(page, 'Suspend 2 keys?')
    expect(await focusedName(page)).toBe('Keep them')
    await keyboard.press('Enter')
    await headed(page, 'Keys')
    expect(page.url()).toBe(site.origin + list)

    await tabTo(page, 'All of this page')
    await keyboard.press('Space')
    await tabTo(page, 'Suspend')
    await keyboard.press('Enter')
    await headed(page, 'Suspend 2 keys?')
    await tabTo(page, 'Suspend now')
    await keyboard.press('Enter')
    await headed(page, '2 keys suspended')
    await tabTo(page, 'All keys')
    await keyboard.press('Enter')
    await headed(page, 'Keys')
    expect(await page.getByRole('row', { name: /of two.*Suspended/s }).count()).toBe(2)
  })

  test('a user filters the audit log, is led to a mistake, and opens an entry', async () => {
    await site.issue({ name: 'audited' })
    const page = await open('/workspaces/ws_1/audit')
    const { keyboard } = page

    await keyboard.press('/')
    await keyboard.type('no id')
    await keyboard.press('Enter')
    await page.getByRole('alert').waitFor()
    expect(await page.evaluate<string>('document.activeElement.id')).toBe('problems')
    await tabTo(page, /^Enter the id of a key/)
    await keyboard.press('Enter')
    expect(await focusedName(page)).toBe('Key id')
    await keyboard.press('Escape')

    await tabTo(page, 'Action')
    await keyboard.press('ArrowDown')
    await tabTo(page, 'Filter')
    await keyboard.press('Enter')
    await page.waitForURL('**action=key.issued*')
    expect([...searchOf(page).keys()]).toEqual(['action'])

    const entry = page.locator('.entries details', { hasText: 'audited' }).first()
    const isOpen = async () => (await entry.getAttribute('open')) !== null
    await tabTo(page, /Issued.*audited/)
    await keyboard.press('Enter')
    await expect.poll(isOpen).toBe(true)
    await keyboard.press('Space')
    await expect.poll(isOpen).toBe(false)
    await keyboard.press('Space')
    expect(await copyByKeyboard(page)).toMatch(/^\S{8,}$/)
  })

  test('an administrator makes an admin token and revokes it after a question', async () => {
    site.provider.person = ROOT
    const page = await open('/workspaces')
    const { keyboard } = page

    await tabTo(page, 'Signed in as Root')
    await keyboard.press('Enter')
    await tabTo(page, 'Admin tokens')
    await keyboard.press('Enter')
    await headed(page, 'Admin tokens')
    await tabTo(page, 'Make a token')
    await keyboard.press('Enter')
    await headed(page, 'Make an admin token')
    await tabTo(page, 'Name')
    await keyboard.type('made by hand')
    await tabTo(page, 'Permissions')
    await keyboard.press('ArrowDown')
    await tabTo(page, 'audit:read')
    await keyboard.press('Space')
    await tabTo(page, 'In 90 days')
    await keyboard.press('ArrowUp')
    await keyboard.press('Enter')

    await page.locator('#secret').waitFor()
    const secret = (await page.locator('#secret').textContent()) ?? ''
    expect(await copyByKeyboard(page)).toBe(secret)
    const whoami = async () => {
      const headers = { authorization: `Bearer ${secret}` }
      const response = await fetch(`${site.origin}/admin/v1/whoami`, { headers })
      return [
        response.status,
        ((await response.json()) as { permissions?: string[] }).permissions?.toSorted(),
      ]
    }
    expect(await whoami()).toEqual([200, ['audit:read', 'keys:read', 'keys:write']])
    await tabTo(page, 'I have saved it')
    await keyboard.press('Enter')

    await headed(page, 'Admin tokens')
    await tabTo(page, 'Revoke made by hand')
    await keyboard.press('Enter')
    await headed(page, 'Revoke token')
    expect(await focusedName(page)).toBe('Keep it')
    await keyboard.press('Enter')
    await headed(page, 'Admin tokens')
    expect((await whoami())[0]).toBe(200)
    await tabTo(page, 'Revoke made by hand')
    await keyboard.press('Enter')
    await headed(page, 'Revoke token')
    await tabTo(page, 'Revoke now')
    await keyboard.press('Enter')
    await page.getByRole('row', { name: /made by hand.*Revoked/s }).waitFor()
    expect((await whoami())[0]).toBe(401)
  })
})
