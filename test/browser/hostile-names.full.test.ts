import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, signIn, visitor } from '../support/browser.ts'
import { type ConsoleSite, startConsoleSite } from '../support/console-site.ts'
import { INVISIBLE_NAMES } from '../support/invisible-names.ts'
import { CHROMIUM, has } from '../support/tools.ts'

/** Links that are shown and have no area to click, by their target. */
const linksWithoutArea = (page: Page) =>
  page.evaluate<string[]>(`[...document.querySelectorAll('a[href]:not(.skip)')]
    .filter(link => link.checkVisibility())
    .filter(link => { const { width, height } = link.getBoundingClientRect(); return width < 8 || height < 8 })
    .map(link => link.outerHTML)`)

describe.skipIf(!has(CHROMIUM))(
  'keys whose names cannot be seen, from before such names were rejected',
  () => {
    let browser: Browser
    let site: ConsoleSite
    const directory = mkdtempSync(join(tmpdir(), 'postern-names-'))
    const file = join(directory, 'console.db')
    const ids: string[] = []
    beforeAll(async () => {
      browser = await launchBrowser()
      site = await startConsoleSite({ databaseUrl: `sqlite:${file}` })
      const names = ['', ...Object.values(INVISIBLE_NAMES), '\u200b'.repeat(100), '.']
      const database = new DatabaseSync(file, { timeout: 5000 })
      for (const name of names) {
        const { id } = await site.issue({ name: 'a name' })
        database.prepare('update keys set name = ? where id = ?').run(name, id)
        ids.push(id)
      }
      database.close()
      await site.rotate(ids[1] ?? '')
      await site.suspend(ids[2] ?? '')
      await site.revoke(ids[3] ?? '')
    })
    afterAll(async () => {
      await browser?.close()
      await site?.stop()
      rmSync(directory, { recursive: true })
    })

    test('have links on every page that lists them, or leads to them, that can be clicked', async () => {
      const ada = await visitor(browser)
      await signIn(ada, site)
      const own = [...ids.slice(0, 4), ...ids.slice(-1)].flatMap(id =>
        ['', '/edit', '/rotate', '/suspend', '/resume', '/revoke'].map(end => `/keys/${id}${end}`),
      )
      for (const path of ['/keys', '/audit', '/usage', '/limits', '/refusals', ...own]) {
        await ada.page.goto(`${site.origin}/workspaces/ws_1${path}`)
        expect([path, await linksWithoutArea(ada.page)]).toEqual([path, []])
      }
      await ada.page.goto(`${site.origin}/workspaces/ws_1/keys`)
      expect(await ada.page.locator('a.key-name').count()).toBeGreaterThanOrEqual(ids.length)
      await ada.page.locator(`a.key-name[href$="${ids[4]}"]`).click()
      await ada.page.waitForURL(`**/keys/${ids[4]}`)
      await ada.close()
    })
  },
)
