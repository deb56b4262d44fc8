import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { launchBrowser, signIn, visitor } from '../support/browser.ts'
import { type ConsoleSite, startConsoleSite } from '../support/console-site.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { CHROMIUM, has } from '../support/tools.ts'

describe.skipIf(!has(CHROMIUM))('the page after a revocation', () => {
  let browser: Browser
  let site: ConsoleSite
  beforeAll(async () => {
    browser = await launchBrowser()
    site = await startConsoleSite({ announcer: new ScriptedAnnouncer() })
  })
  afterAll(async () => {
    await browser?.close()
    await site?.stop()
  })

  test.each([
    ['in its place, with JavaScript', true],
    ['as a new page, without JavaScript', false],
  ])('shows by itself that the last gateway has confirmed: %s', async (_, javaScriptEnabled) => {
    const { id, secret } = await site.issue({ name: 'watched' })
    await site.confirm('pod-1')
    const ada = await visitor(browser, { javaScriptEnabled })
    const { page } = ada
    await signIn(ada, site, `/workspaces/ws_1/keys/${id}/revoke`)
    await page.getByRole('button', { name: 'Revoke now' }).click()
    await page.getByText('Confirmed by 0 of 1 gateway').waitFor()
    const before = page.url()
    await site.confirm('pod-1', [{ digest: digestKey(secret), version: 2 }])
    await page.getByText('Confirmed by 1 of 1 gateway').waitFor()
    expect(page.url() === before).toBe(javaScriptEnabled)
    expect(await page.locator('[data-refreshes]').count()).toBe(0)
    expect(ada.pageErrors).toEqual([])
    await ada.close()
  })
})
