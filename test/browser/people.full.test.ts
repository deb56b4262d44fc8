import type { Browser } from 'playwright-core'
import { describe, onTestFinished, test } from 'vitest'
import { signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

describe.skipIf(!has(CHROMIUM))('people who are signed in, for an administrator', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  async function enter(claims: { sub: string; name: string; roles?: string[] }, options = {}) {
    site.provider.person = { workspaces: ['ws_1'], ...claims }
    const person = await visitor(browser, options)
    onTestFinished(() => person.close())
    await signIn(person, site)
    return person
  }
  const root = (options = {}) => enter({ sub: 'root', name: 'Root', roles: ['postern-admin'] }, options)

  test.each([true, false])('sessions end at once, with JavaScript: %s', async javaScriptEnabled => {
    const ada = await enter({ sub: 'ada', name: 'Ada Lovelace' })
    const { page } = await root({ javaScriptEnabled })
    await page.goto(`${site.origin}/workspaces/ws_1/keys`)
    await page.locator('summary', { hasText: 'Root' }).click()
    await page.getByRole('link', { name: 'Signed-in people' }).click()
    await page.getByRole('link', { name: 'End sessions of Ada Lovelace' }).click()
    await page.getByRole('button', { name: 'End sessions' }).click()
    await page.getByText('1 session ended').waitFor()
    await ada.page.goto(`${site.origin}/workspaces/ws_1/keys`)
    await ada.page.getByRole('heading', { name: 'Sign in' }).waitFor()
  })
})
