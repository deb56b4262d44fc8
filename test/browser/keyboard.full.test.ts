import type { Browser } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { copyByKeyboard, focusedName, tabTo } from '../support/keyboard.ts'
import { CHROMIUM, has } from '../support/tools.ts'

describe.skipIf(!has(CHROMIUM))('with a keyboard alone', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  test('a user issues a key, copies it and revokes it', async () => {
    const ada = await visitor(browser, { permissions: ['clipboard-read', 'clipboard-write'] })
    const { page } = ada
    const { keyboard } = page
    await signIn(ada, site)

    await keyboard.press('Tab')
    expect(await focusedName(page)).toBe('Skip to content')
    await keyboard.press('Enter')
    expect(await page.evaluate<string>('document.activeElement.id')).toBe('main')
    await tabTo(page, 'Issue a key')
    await keyboard.press('Enter')
    await page.waitForURL('**/keys/new')

    await tabTo(page, 'Name')
    await keyboard.type('typed by hand')
    await tabTo(page, 'files:read')
    await keyboard.press('Space')
    await tabTo(page, 'In 90 days')
    await keyboard.press('ArrowUp')
    expect(await page.getByLabel('30 days').isChecked()).toBe(true)
    await keyboard.press('Enter')

    await page.locator('#secret').waitFor()
    const secret = await page.locator('#secret').textContent()
    await page.locator('button[data-copies=secret]').waitFor()
    expect(await copyByKeyboard(page)).toBe(secret)
    await tabTo(page, 'I have saved it')
    await keyboard.press('Enter')

    await page.getByRole('heading', { name: 'typed by hand' }).waitFor()
    await page.getByRole('button', { name: 'Revoke', exact: true }).waitFor()
    await tabTo(page, 'Revoke')
    await keyboard.press('Space')
    const dialog = page.getByRole('dialog', { name: 'Revoke key' })
    await dialog.waitFor()
    expect(await focusedName(page)).toBe('Keep it')
    await keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    expect(await focusedName(page)).toBe('Revoke')
    await keyboard.press('Enter')
    await dialog.waitFor()
    expect(await focusedName(page)).toBe('Keep it')
    await keyboard.press('Enter')
    await dialog.waitFor({ state: 'hidden' })
    await keyboard.press('Enter')
    await tabTo(page, 'Revoke now')
    await dialog.getByRole('button', { name: 'Revoke now' }).press('Enter')
    await page.getByRole('heading', { name: 'Key revoked' }).waitFor()
    await ada.close()
  })

  test('a user chooses a date by typing it, and signs out', async () => {
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, '/workspaces/ws_1/keys/new')
    await page.getByLabel('Last day').fill('2027-01-31')
    expect(await page.getByLabel('On a date').isChecked()).toBe(true)
    await page.getByLabel('In 7 days').check()
    expect(await page.getByLabel('Last day').inputValue()).toBe('')

    await page.locator('summary').first().focus()
    await page.keyboard.press('Enter')
    await page.keyboard.press('Escape')
    expect(await page.getByRole('button', { name: 'Sign out', exact: true }).isVisible()).toBe(false)
    await page.keyboard.press('Enter')
    await tabTo(page, 'Sign out')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await ada.close()
  })
})
