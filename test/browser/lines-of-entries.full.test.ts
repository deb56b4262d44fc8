import type { Browser, Page } from 'playwright-core'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { overflowOf, signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const DAY_MS = 86_400_000
const WIDE = { width: 1280, height: 800 }
const PHONE = { width: 360, height: 740 }
/** Its name stands in no short form, so times are as long as they get. */
const ZONE = 'America/Argentina/Buenos_Aires'

describe.skipIf(!has(CHROMIUM))('a line of the audit log or of rejections', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })
  beforeAll(async () => {
    const { id: keyId } = await site.issue({ name: 'of a partner with a long name' })
    const at = Date.now() - 2 * DAY_MS
    const refusal = { keyId, at, route: 'files', address: '192.0.2.0/24' }
    await site.reportUsage({
      counts: [],
      refusals: [
        { ...refusal, requestId: 'a', code: 'address_not_allowed', reason: 'address_not_allowed' },
        { ...refusal, requestId: 'b', code: 'not_found', reason: 'other_workspace' },
      ],
    })
    await site.rotate(keyId)
    await site.revoke(keyId)
  })

  async function open(path: string, viewport: { width: number; height: number }): Promise<Page> {
    const ada = await visitor(browser, { viewport, timezoneId: ZONE })
    onTestFinished(() => ada.close())
    await signIn(ada, site)
    await ada.page.goto(site.origin + path)
    return ada.page
  }
  /** Of each time, how many lines it has. */
  const linesOfTimes = (page: Page) =>
    page.locator('.entries summary time').evaluateAll(all => all.map(time => time.getClientRects().length))

  test.each(['refusals', 'audit'])(
    'of %s is one line on a desk, also if it is of another day',
    async name => {
      const page = await open(`/workspaces/ws_1/${name}`, WIDE)
      const lines = await linesOfTimes(page)
      expect([lines.length > 1, new Set(lines)]).toEqual([true, new Set([1])])
    },
  )

  test.each(['refusals', 'audit'])('of %s has its parts in the same places on a phone', async name => {
    const page = await open(`/workspaces/ws_1/${name}`, PHONE)
    expect(new Set(await linesOfTimes(page))).toEqual(new Set([1]))
    const ends = await page
      .locator('.entries summary > :nth-child(2)')
      .evaluateAll(all => all.map(part => Math.round(part.getBoundingClientRect().right)))
    expect([ends.length > 1, new Set(ends).size]).toEqual([true, 1])
    expect(await overflowOf(page)).toBe(0)
  })
})
