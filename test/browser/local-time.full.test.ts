import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, overflowOf, signIn, visitor } from '../support/browser.ts'
import { type ConsoleSite, startConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

/** Of the rejection; its requests are of a minute that has begun. */
const AT_MS = Date.now() - 60_000
const HOUR_MS = 3_600_000

/** As a clock in a time zone without summer time shows it. */
function shown(atMs: number, hoursAhead: number, zone: string, withSeconds: boolean): string {
  const there = new Date(atMs + hoursAhead * 3_600_000).toISOString()
  const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' }).format(
    Date.parse(there),
  )
  const time = there.slice(11, withSeconds ? 19 : 16)
  return `${day}, ${time} ${zone}`
}

describe.skipIf(!has(CHROMIUM))('a time on a page', () => {
  let browser: Browser
  let site: ConsoleSite
  let keyId: string
  beforeAll(async () => {
    browser = await launchBrowser()
    site = await startConsoleSite()
    keyId = (await site.issue({ name: 'timed' })).id
    const at = AT_MS
    const refusal = { keyId, at, route: 'files', code: 'not_found', reason: 'other_workspace' }
    const counts = [{ keyId, route: 'files', code: 'ok', minute: Math.floor(at / 60_000), count: 1 }]
    await site.reportUsage({ counts, refusals: [{ ...refusal, requestId: 'r', address: '192.0.2.0/24' }] })
  })
  afterAll(async () => {
    await browser?.close()
    await site?.stop()
  })

  test.each([
    ['Asia/Tokyo', 9, 'GMT+9'],
    ['America/Bogota', -5, 'GMT-5'],
  ])('is that of the browser, in %s, and UTC is its tooltip', async (timezoneId, hours, zone) => {
    const ada = await visitor(browser, { timezoneId })
    const { page } = ada
    await signIn(ada, site, `/workspaces/ws_1/keys/${keyId}`)
    const created = page.locator('dd', { hasText: 'by ' }).locator('time').first()
    const createdAtMs = Date.parse((await created.getAttribute('datetime')) ?? '')
    expect([await created.textContent(), await created.getAttribute('title')]).toEqual([
      shown(createdAtMs, hours, zone, false),
      shown(createdAtMs, 0, 'UTC', false),
    ])
    await page.goto(`${site.origin}/workspaces/ws_1/keys/${keyId}/revoke`)
    const since = page.locator('p', { hasText: 'Requests since' }).locator('time')
    const sinceMs = Date.parse((await since.getAttribute('datetime')) ?? '')
    // An hour, to the minute.
    expect(shown(sinceMs, hours, zone, false)).toContain(await since.textContent())
    expect(shown(sinceMs, 0, 'UTC', false)).toContain(await since.getAttribute('title'))
    await page.goto(`${site.origin}/workspaces/ws_1/refusals`)
    const refused = page.locator('.entries summary time').first()
    // Without the day if it is today, there and here.
    expect(shown(AT_MS, hours, zone, true)).toContain(await refused.textContent())
    expect(shown(AT_MS, 0, 'UTC', true)).toContain(await refused.getAttribute('title'))
    expect(await refused.textContent()).toContain(zone)
    await page.goto(`${site.origin}/workspaces/ws_1/audit`)
    await page.locator('.entries summary').first().click()
    await page
      .locator('.entries dd time')
      .getByText(new RegExp(`\\.\\d{3} ${zone.replace('+', '\\+')}`))
      .waitFor()
    expect(ada.pageErrors).toEqual([])
    await ada.close()
  })

  /** Of a chart: each time below it, and its tooltip. */
  const ticksOf = (page: Page) =>
    page.evaluate<[text: string, utc: string][]>(
      `[...document.querySelectorAll('.times text')].map(one => [one.firstChild.data, one.querySelector('title').textContent])`,
    )

  test.each([
    ['Asia/Tokyo', 9, 'GMT+9'],
    ['America/Bogota', -5, 'GMT-5'],
  ])(
    'is that of the browser in charts by the hour too, on a phone in %s',
    async (timezoneId, hours, zone) => {
      const ada = await visitor(browser, { timezoneId, viewport: { width: 360, height: 740 } })
      const { page } = ada
      await signIn(ada, site, `/workspaces/ws_1/keys/${keyId}`)
      await page.getByText('Numbers of the chart').click()
      await page.getByText(`A bar is an hour, in ${zone}`).waitFor()
      await page.getByRole('table', { name: `Requests by hour, in ${zone}` }).waitFor()
      const hourMs = Math.floor(AT_MS / HOUR_MS) * HOUR_MS
      const time = page.locator(`figure tbody time[datetime="${new Date(hourMs).toISOString()}"]`)
      expect([await time.textContent(), await time.getAttribute('title')]).toEqual([
        shown(hourMs, hours, zone, false),
        shown(hourMs, 0, 'UTC', false),
      ])
      const ticks = await ticksOf(page)
      expect(ticks.length).toBeGreaterThanOrEqual(3)
      for (const [text, utc] of ticks) {
        const [, hour] = /(\d\d):00 UTC$/.exec(utc) ?? []
        const here = `${String((Number(hour) + hours + 24) % 24).padStart(2, '0')}:00`
        expect({ utc, text }).toEqual({
          utc,
          text: expect.stringMatching(here === '00:00' ? /^\d+ \w+$/ : here),
        })
      }
      await page.goto(`${site.origin}/workspaces/ws_1/usage?range=7d`)
      await page.getByText(`A bar is 6 hours, in ${zone}`).waitFor()
      const [span] = await page.locator('figure tbody th').allTextContents()
      expect(span).toContain(zone)
      expect(span).toMatch(/^\d+ \w+ \d{4}, \d\d:00 to \d\d:00 GMT/)
      expect([await overflowOf(page), ada.pageErrors]).toEqual([0, []])
      // Its bars are days of UTC, in every browser.
      await page.goto(`${site.origin}/workspaces/ws_1/usage?range=30d`)
      await page.getByText('A bar is a day, in UTC').waitFor()
      await ada.close()
    },
  )

  test('stays UTC without JavaScript, and in a browser with that time zone', async () => {
    for (const options of [{ javaScriptEnabled: false, timezoneId: 'Asia/Tokyo' }, { timezoneId: 'UTC' }]) {
      const ada = await visitor(browser, options)
      await signIn(ada, site, `/workspaces/ws_1/keys/${keyId}`)
      await ada.page
        .getByText(/\d{4}, \d\d:\d\d UTC/)
        .first()
        .waitFor()
      await ada.page.getByText('A bar is an hour, in UTC').waitFor()
      await ada.close()
    }
  })

  test('stands on one line in a list of keys', async () => {
    await site.issue({ name: 'a very long name '.repeat(5).trim(), scopes: ['files:read', 'workspace:read'] })
    const ada = await visitor(browser, { viewport: { width: 1280, height: 800 } })
    await signIn(ada, site, '/workspaces/ws_1/keys')
    const lines = await ada.page
      .locator('.keys td time, .keys td .muted')
      .evaluateAll(all => all.map(time => time.getClientRects().length))
    expect([lines.length > 1, Math.max(...lines)]).toEqual([true, 1])
    await ada.close()
  })
})
