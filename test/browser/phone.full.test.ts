import type { Browser, Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DENIAL_REASONS, denialRow } from '../../src/domain/denial.ts'
import { overflowOf, signIn, visitor } from '../support/browser.ts'
import { useConsoleInBrowser } from '../support/console-in-browser.ts'
import type { ConsoleSite } from '../support/console-site.ts'
import { CHROMIUM, has } from '../support/tools.ts'

const PHONE = { width: 360, height: 740 }

describe.skipIf(!has(CHROMIUM))('on a phone', () => {
  let browser: Browser
  let site: ConsoleSite
  useConsoleInBrowser(started => {
    browser = started.browser
    site = started.site
  })

  async function open(path: string, options = {}): Promise<Page> {
    const ada = await visitor(browser, { viewport: PHONE, ...options })
    onTestFinished(() => ada.close())
    await signIn(ada, site)
    await ada.page.goto(site.origin + path)
    return ada.page
  }
  const boxOf = async (page: Page, name: string) =>
    (await page.getByRole('navigation').getByRole('link', { name, exact: true }).boundingBox()) ?? {
      x: -1,
      y: -1,
      width: 0,
    }

  test('tabs stand in one line, which scrolls to the one that is open', async () => {
    const page = await open('/workspaces/ws_1/api')
    const [first, last] = [await boxOf(page, 'Keys'), await boxOf(page, 'API reference')]
    expect(last.y).toBe(first.y)
    expect(last.x + last.width).toBeLessThanOrEqual(PHONE.width)
    expect(await overflowOf(page)).toBe(0)
  })

  test('without JavaScript the tabs scroll too, and the page does not', async () => {
    const page = await open('/workspaces/ws_1/keys', { javaScriptEnabled: false })
    const [first, last] = [await boxOf(page, 'Keys'), await boxOf(page, 'API reference')]
    expect(last.y).toBe(first.y)
    expect(await overflowOf(page)).toBe(0)
  })

  test('five keys of a list fit on one screen, below the notice of one that expires soon', async () => {
    for (let count = 0; count < 6; count++) {
      await site.issue({ name: `key ${count}`, expiresInDays: count === 0 ? 10 : 60 })
    }
    const page = await open('/workspaces/ws_1/keys')
    expect(await page.getByText('expires within').count()).toBe(1)
    const ends = await page
      .locator('tbody tr')
      .evaluateAll(all => all.map(row => row.getBoundingClientRect().bottom))
    expect(ends).toHaveLength(6)
    expect(ends[4]).toBeLessThan(PHONE.height)
    expect(await overflowOf(page)).toBe(0)
  })

  test('what can be done with a key, or with several, stands in one line', async () => {
    const { id: keyId } = await site.issue({ name: 'to be changed' })
    const page = await open(`/workspaces/ws_1/keys/${keyId}`)
    const tops = (buttons: string) =>
      page.locator(buttons).evaluateAll(all => all.map(button => button.getBoundingClientRect().top))
    const ofKey = await tops('.title .button')
    expect([ofKey.length, new Set(ofKey).size]).toEqual([4, 1])
    await page.goto(`${site.origin}/workspaces/ws_1/keys`)
    const ofSeveral = await tops('.bar button')
    expect([ofSeveral.length, new Set(ofSeveral).size]).toEqual([3, 1])
  })

  test('labels of a list stand clear of their values', async () => {
    const page = await open('/workspaces')
    const gaps = await page.locator('.stacks td').evaluateAll(all =>
      all.map(({ firstElementChild: label, lastElementChild: value }) => {
        if (label === null || value === null || label.scrollWidth > label.clientWidth) return 0
        return value.getBoundingClientRect().left - label.getBoundingClientRect().right
      }),
    )
    expect(gaps.length).toBeGreaterThan(6)
    expect(Math.min(...gaps)).toBeGreaterThan(6)
  })

  test('a long name is cut in a list of rejections, and the hint beside it is not', async () => {
    const { id: keyId } = await site.issue({ name: 'a very long name '.repeat(5).trim() })
    const at = Date.now() - 60_000
    const refusal = { keyId, at, route: 'files', code: 'not_found', reason: 'other_workspace' }
    await site.reportUsage({
      counts: [],
      refusals: [{ ...refusal, requestId: 'r', address: '192.0.2.0/24' }],
      gateway: 'another',
    })
    const page = await open('/workspaces/ws_1/refusals')
    const [hint, line] = await Promise.all([
      page.locator('.entries .hint-of-key').first().boundingBox(),
      page
        .locator('.entries .about', { has: page.locator('.hint-of-key') })
        .first()
        .boundingBox(),
    ])
    expect((hint?.x ?? 0) + (hint?.width ?? 0)).toBeLessThanOrEqual((line?.x ?? 0) + (line?.width ?? 0) + 1)
    expect(await overflowOf(page)).toBe(0)
  })

  test('a code of a rejection stands on one line', async () => {
    const { id: keyId } = await site.issue({ name: 'rejected' })
    const minute = Math.floor(Date.now() / 60_000) - 1
    const codes = DENIAL_REASONS.map(reason => denialRow(reason).code)
    const counts = [...new Set(codes)].map(code => ({ keyId, route: 'files', code, minute, count: 123_456 }))
    await site.reportUsage({ counts, refusals: [] })
    const page = await open(`/workspaces/ws_1/keys/${keyId}`)
    const table = page.locator('table.counts', { hasText: 'Not served, by code' })
    const lines = await table
      .locator('code')
      .evaluateAll(all => all.map(code => code.getClientRects().length))
    expect([...new Set(lines)]).toEqual([1])
    expect(lines.length).toBeGreaterThan(10)
    expect(await overflowOf(page)).toBe(0)
  })

  test.each([
    ['1h', 'Asia/Kathmandu'],
    ['24h', 'Asia/Kathmandu'],
    ['7d', 'Asia/Kathmandu'],
    ['30d', 'Asia/Kathmandu'],
    ['400d', 'Asia/Kathmandu'],
    ['24h', 'UTC'],
  ])('the times below a chart of %s stand apart, in %s', async (range, timezoneId) => {
    const { id } = await site.issue({ name: 'charted' })
    const minute = Math.floor(Date.now() / 60_000)
    const counts = [{ keyId: id, route: 'files', code: 'ok', minute, count: 1 }]
    await site.reportUsage({ counts, refusals: [], gateway: `of-${range}-${timezoneId.length}` })
    const page = await open(`/workspaces/ws_1/usage?range=${range}`, { timezoneId })
    const spans = await page.locator('.times text:visible').evaluateAll(all =>
      all
        .map(text => text.getBoundingClientRect())
        .map(({ left, right }) => ({ left, right }))
        .sort((a, b) => a.left - b.left),
    )
    const gaps = spans.slice(1).map(({ left }, index) => left - (spans[index]?.right ?? 0))
    expect(spans.length).toBeGreaterThan(1)
    expect(Math.min(...gaps)).toBeGreaterThan(4)
  })

  test.each([
    ['audit', 'Key id', ['Actor', 'Action', 'From (UTC)', 'Before (UTC)']],
    ['refusals', 'Request id', ['Key id', 'Code', 'From (UTC)', 'Before (UTC)']],
  ])(
    'of the filters of %s one stands before the list, and the others fold away',
    async (path, first, folded) => {
      const page = await open(`/workspaces/ws_1/${path}`)
      const shown = (label: string) => page.getByLabel(label, { exact: true }).isVisible()
      expect(await shown(first)).toBe(true)
      expect(await Promise.all(folded.map(shown))).toEqual(folded.map(() => false))
      await page.locator('.fold > summary').click()
      expect(await Promise.all(folded.map(shown))).toEqual(folded.map(() => true))
    },
  )

  test('filters fold away, and apply as soon as one is chosen', async () => {
    await site.issue({ name: 'to be filtered', expiresInDays: 60 })
    const page = await open('/workspaces/ws_1/keys')
    expect(await page.getByLabel('Used').isVisible()).toBe(false)
    await page.locator('.fold > summary').click()
    await page.getByLabel('Used').selectOption('never')
    await page.waitForURL(/unused=never/)
    expect(await page.locator('.fold > summary').innerText()).toBe('Filters 1')
    expect(await overflowOf(page)).toBe(0)
  })
})
