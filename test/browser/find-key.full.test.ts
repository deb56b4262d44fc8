import type { Browser } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

describe.skipIf(!has(CHROMIUM))('a key that a person holds', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  test.each([
    ['only its digest leaves the browser', true],
    ['without JavaScript the key is posted', false],
  ])(
    'is found and revoked with a keyboard, and is in no URL and no field afterwards: %s',
    async (_, javaScriptEnabled) => {
      const { secret } = await site.issue({ name: `found ${javaScriptEnabled}` })
      const ada = await visitor(browser, { javaScriptEnabled })
      const { page } = ada
      await signIn(ada, site)
      const sent: string[] = []
      const urls: string[] = []
      page.on('request', request => {
        urls.push(request.url())
        if (request.method() === 'POST') sent.push(request.postData() ?? '')
      })
      await page.getByRole('link', { name: 'Find a key' }).click()
      await page.getByLabel('Key', { exact: true }).fill(` Authorization: Bearer “${secret}\u200b” `)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: `found ${javaScriptEnabled}` }).waitFor()
      expect(sent.join().includes(secret)).toBe(!javaScriptEnabled)
      if (javaScriptEnabled) expect(sent.join()).toContain(digestKey(secret))
      await page.getByRole('link', { name: 'Revoke' }).click()
      await page.getByRole('button', { name: 'Revoke now' }).click()
      await page.getByRole('heading', { name: 'Key revoked' }).waitFor()
      await page.goto(`${site.origin}/find-key`)
      expect(await page.getByLabel('Key', { exact: true }).inputValue()).toBe('')
      expect(urls.join()).not.toContain(secret)
      expect(ada.pageErrors).toEqual([])
      await ada.close()
    },
  )

  test.each(['/workspaces/ws_1/keys', '/workspaces/ws_1/refusals'])(
    'and pastes into the search of %s is not sent: the page for finding keys opens',
    async path => {
      const { secret } = await site.issue({ name: 'searched' })
      const ada = await visitor(browser)
      const { page } = ada
      await signIn(ada, site, path)
      const urls: string[] = []
      page.on('request', request => void urls.push(request.url()))
      await page.getByRole('searchbox').first().fill(` ${secret}`)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'Find a key' }).waitFor()
      expect(urls.join()).not.toContain(secret)
      await page.goBack({ waitUntil: 'commit' })
      expect(await page.getByRole('searchbox').first().inputValue()).toBe('')
      await ada.close()
    },
  )

  test.each([
    ['audit', 'Actor', `person:CiQ${'0a'.repeat(30)}`],
    ['refusals', 'Request id', '0f'.repeat(32)],
  ])('is not what a search in %s by a long %s is taken for', async (path, label, text) => {
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, `/workspaces/ws_1/${path}`)
    await page.getByLabel(label, { exact: true }).fill(text)
    await page.keyboard.press('Enter')
    await page.waitForURL(url => [...url.searchParams.values()].includes(text))
    expect(await page.getByLabel(label, { exact: true }).inputValue()).toBe(text)
    await ada.close()
  })
})
