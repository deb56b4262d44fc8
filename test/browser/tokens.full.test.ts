import type { Browser } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

describe.skipIf(!has(CHROMIUM))('admin tokens, for an administrator', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  async function root(options = {}) {
    site.provider.person = { sub: 'root', name: 'Root', workspaces: ['ws_1'], roles: ['postern-admin'] }
    const person = await visitor(browser, options)
    onTestFinished(() => person.close())
    await signIn(person, site)
    return person
  }

  test('the permissions of one stand in one line, also on a narrow screen', async () => {
    const { page } = await root({ viewport: { width: 360, height: 740 } })
    await page.goto(`${site.origin}/tokens/new`)
    await page.getByLabel('Name').fill('two permissions')
    await page.getByLabel('audit:read').check()
    await page.getByRole('button', { name: 'Make token' }).click()
    await page.locator('#secret').waitFor()
    await page.goto(`${site.origin}/tokens`)
    const tops = await page
      .getByRole('row', { name: 'two permissions' })
      .locator('.scopes > li')
      .evaluateAll(all => all.map(item => item.getBoundingClientRect().top))
    expect([tops.length, new Set(tops).size]).toEqual([2, 1])
  })

  test.each([true, false])('one is made and revoked, with JavaScript: %s', async javaScriptEnabled => {
    const { page } = await root({ javaScriptEnabled })
    const name = `deploy ${javaScriptEnabled}`
    await page.goto(`${site.origin}/workspaces/ws_1/keys`)
    await page.locator('summary', { hasText: 'Root' }).click()
    await page.getByRole('link', { name: 'Admin tokens' }).click()
    await page.getByRole('link', { name: 'Make a token' }).click()
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('Permissions', { exact: true }).selectOption({ value: 'keys' })
    await page.getByRole('button', { name: 'Make token' }).click()
    const secret = (await page.locator('#secret').textContent()) ?? ''
    const status = async () => {
      const headers = { authorization: `Bearer ${secret}` }
      return (await fetch(`${site.origin}/admin/v1/whoami`, { headers })).status
    }
    expect(await status()).toBe(200)
    if (javaScriptEnabled) {
      await page.reload()
      await page.getByRole('heading', { name: 'Token already made' }).waitFor()
      await page.goto(`${site.origin}/tokens`)
    } else {
      await page.getByRole('link', { name: 'I have saved it' }).click()
    }
    await page.getByRole('link', { name: `Revoke ${name}` }).click()
    await page.getByRole('button', { name: 'Revoke now' }).click()
    await page.getByRole('row', { name }).getByText('Revoked').waitFor()
    expect(await status()).toBe(401)
  })
})
