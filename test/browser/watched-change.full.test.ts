import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { launchBrowser, signIn, visitor } from '../support/browser.ts'
import { type ConsoleSite, startConsoleSite } from '../support/console-site.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { CHROMIUM, has } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { WebhookReceiver } from '../support/webhook-receiver.ts'

describe.skipIf(!has(CHROMIUM))('the page after a change', () => {
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

  test('of a webhook shows by itself that its test was delivered', async () => {
    const receiver = await WebhookReceiver.start()
    onTestFinished(() => receiver.stop())
    const answers: (() => void)[] = []
    receiver.answer = response => answers.push(() => response.writeHead(204).end())
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, '/workspaces/ws_1/webhook')
    await page.getByLabel('Address').fill(receiver.url)
    await page.getByRole('button', { name: 'Set address' }).click()
    await page.getByRole('link', { name: 'I have saved it' }).click()
    await page.getByRole('button', { name: 'Send a test' }).click()
    await page.getByText('Waiting', { exact: true }).waitFor()
    await until('the test arrives', () => answers.length === 1)
    answers[0]?.()
    await page.getByText('204, after 1 attempt').waitFor()
    expect([await page.locator('[data-refreshes]').count(), ada.pageErrors]).toEqual([0, []])
    await ada.close()
  })

  /** A key that was suspended, and a gateway that has not confirmed it. */
  async function suspendedKey(name: string) {
    const { id, secret } = await site.issue({ name })
    await site.suspend(id)
    await site.confirm('pod-1')
    return { id, digest: digestKey(secret) }
  }

  test('a resumption does so too', async () => {
    const { id, digest } = await suspendedKey('resumed')
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, `/workspaces/ws_1/keys/${id}/resume`)
    await page.getByRole('button', { name: 'Resume now' }).click()
    await page.getByText('Confirmed by 0 of 1 gateway').waitFor()
    await site.confirm('pod-1', [{ digest, version: 3 }])
    await page.getByText('Confirmed by 1 of 1 gateway').waitFor()
    expect(await page.getByRole('heading', { name: 'Key resumed' }).isVisible()).toBe(true)
    expect([await page.locator('[data-refreshes]').count(), ada.pageErrors]).toEqual([0, []])
    await ada.close()
  })

  test('a change of several keys does so too, and keeps saying what became of each', async () => {
    const { digest } = await suspendedKey('chosen')
    const ada = await visitor(browser)
    const { page } = ada
    await signIn(ada, site, '/workspaces/ws_1/keys?state=suspended')
    await page.getByLabel('Select chosen').check()
    await page.getByRole('button', { name: 'Revoke', exact: true }).click()
    await page.getByRole('button', { name: 'Revoke now' }).click()
    await page.getByText('Confirmed by 0 of 1 gateway').waitFor()
    await site.confirm('pod-1', [{ digest, version: 3 }])
    await page.getByText('Confirmed by 1 of 1 gateway').waitFor()
    expect(await page.getByRole('heading', { name: '1 key revoked' }).isVisible()).toBe(true)
    expect(await page.getByRole('row', { name: 'chosen' }).isVisible()).toBe(true)
    expect([await page.locator('[data-refreshes]').count(), ada.pageErrors]).toEqual([0, []])
    await ada.close()
  })

  test('without JavaScript a change of several keys links to a page that looks again', async () => {
    const { digest } = await suspendedKey('without script')
    const ada = await visitor(browser, { javaScriptEnabled: false })
    const { page } = ada
    await signIn(ada, site, '/workspaces/ws_1/keys?state=suspended')
    await page.getByLabel('Select without script').check()
    await page.getByRole('button', { name: 'Revoke', exact: true }).click()
    await page.getByRole('button', { name: 'Revoke now' }).click()
    await page.getByRole('link', { name: 'How far the change has come since' }).click()
    await page.getByText('Confirmed by 0 of 1 gateway').waitFor()
    await site.confirm('pod-1', [{ digest, version: 3 }])
    await page.getByText('Confirmed by 1 of 1 gateway').waitFor()
    await ada.close()
  })
})
