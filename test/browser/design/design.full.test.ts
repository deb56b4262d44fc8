import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { barriersOf, launchBrowser, overflowOf, visitor } from '../../support/browser.ts'
import { CHROMIUM, has } from '../../support/tools.ts'
import { controlsOf, unlikeDesign } from './controls.ts'
import { startDesign } from './design-server.ts'
import { VIEW_NAMES, VIEWS } from './views.ts'

describe.skipIf(!has(CHROMIUM))('the page of the design', () => {
  let browser: Browser
  let design: Awaited<ReturnType<typeof startDesign>>
  beforeAll(async () => {
    browser = await launchBrowser()
    design = await startDesign()
  })
  afterAll(async () => {
    await browser?.close()
    await design?.stop()
  })

  async function shown(act: (page: Page, pageErrors: readonly string[]) => Promise<void>): Promise<void> {
    const { page, pageErrors, close } = await visitor(browser)
    await page.goto(design.origin)
    await act(page, pageErrors)
    await close()
  }

  test.each(VIEW_NAMES)('is accessible, and controls of one kind look alike on it: %s', async view => {
    await shown(async (page, pageErrors) => {
      const { size, colorScheme } = VIEWS[view]
      await page.setViewportSize(size)
      await page.emulateMedia({ colorScheme })
      const controls = await controlsOf(page)
      expect({
        unlike: unlikeDesign(controls, controls),
        barriers: await barriersOf(page),
        overflow: await overflowOf(page),
        pageErrors,
      }).toEqual({ unlike: [], barriers: [], overflow: 0, pageErrors: [] })
    })
  })

  test('a type of input that the style sheet forgets is found, by its name and property', async () => {
    await shown(async page => {
      const before = await controlsOf(page)
      await page.addStyleTag({ content: 'input[type="url"] { all: revert !important }' })
      const unlike = unlikeDesign(before, await controlsOf(page)).join('\n')
      expect(unlike).toMatch(/^input\[type=url\] "url": font-family is /m)
      expect(unlike).toMatch(/^input\[type=url\] "url": border-radius is 0px, and 8px of field /m)
      expect(unlike).not.toContain('type=text')
    })
  })

  test('a control that the page of the design lacks is found', async () => {
    await shown(async page => {
      const before = await controlsOf(page)
      await page.evaluate(
        `document.querySelector('main').insertAdjacentHTML('beforeend', '<button class="huge">Press</button>')`,
      )
      expect(unlikeDesign(before, await controlsOf(page))).toEqual([
        'button "Press": no button.huge on the page of the design',
      ])
    })
  })
})
