import { writeFileSync } from 'node:fs'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  BROWSER_TEST,
  barriersOf,
  launchBrowser,
  overflowOf,
  pictureOf,
  type Visitor,
  visitor,
} from '../support/browser.ts'
import { CHROMIUM, has } from '../support/tools.ts'
import { type Scene, type Stage, setStage } from './scenes.ts'

const WIDE = { width: 1120, height: 700 }
const VIEWS = {
  light: { viewport: WIDE, colorScheme: 'light' },
  dark: { viewport: WIDE, colorScheme: 'dark' },
  narrow: { viewport: { width: 360, height: 740 }, colorScheme: 'light' },
  'without-javascript': { viewport: { width: 360, height: 740 }, javaScriptEnabled: false },
} as const satisfies Record<string, BrowserContextOptions>
type View = keyof typeof VIEWS
const VIEW_NAMES: readonly View[] = ['light', 'dark', 'narrow', 'without-javascript']

/** Set by `npm run pictures`: the README's pictures show the tested pages. */
const PICTURES = process.env['POSTERN_PICTURES'] === '1'
const PICTURED = new Set(
  'sign-in workspaces keys key-rotated issue secret rotate revoke revoked audit api keys-narrow usage refusals'.split(
    ' ',
  ),
)
const SCHEMES: ReadonlySet<View> = new Set(['light', 'dark'])
const NAMES = [
  'sign-in',
  'workspaces',
  'keys',
  'keys-expiring',
  'keys-searched',
  'keys-no-match',
  'keys-none',
  'key',
  'key-rotated',
  'key-described',
  'key-suspended',
  'key-leaked',
  'edit',
  'edit-conflict',
  'suspend',
  'resume',
  'find-key',
  'find-key-found',
  'find-key-unknown',
  'revoke-all',
  'revoke-all-problem',
  'rotate-now',
  'issue',
  'issue-problems',
  'rotate',
  'finish',
  'revoke',
  'key-usage-400d',
  'usage',
  'usage-none',
  'refusals',
  'refusals-no-match',
  'api',
  'not-found',
  'secret',
  'issued-already',
  'audit',
  'deliveries',
  'webhook-none',
  'webhook-problem',
  'webhook-secret',
  'webhook',
  'revoked',
  'revoked-silent',
]

describe.skipIf(!has(CHROMIUM))('every page is accessible', BROWSER_TEST, () => {
  let browser: Browser
  let stage: Stage
  /** A signed-in and an anonymous visitor for each view. */
  const people = new Map<string, Visitor>()
  beforeAll(async () => {
    browser = await launchBrowser()
    stage = await setStage()
    const first = await visitor(browser)
    await first.page.goto(stage.site.signInUrl)
    const storageState = await first.context.storageState()
    await first.close()
    for (const view of VIEW_NAMES) {
      for (const signedOut of [true, false]) {
        const signedIn = signedOut ? {} : { storageState }
        const person = await visitor(browser, { ...VIEWS[view], ...signedIn })
        people.set(`${view} ${signedOut}`, person)
      }
    }
  })
  afterAll(async () => {
    await browser?.close()
    await stage?.stop()
  })

  function personOf(view: View, { signedOut = false }: Scene): Visitor {
    const person = people.get(`${view} ${signedOut}`)
    if (person === undefined) throw new Error(`There is no visitor for the view ${view}`)
    return person
  }

  test.each(NAMES)('%s', async name => {
    const scene = stage.scenes.find(one => one.name === name)
    if (scene === undefined) throw new Error(`There is no scene ${name}`)
    for (const view of VIEW_NAMES) {
      const { page, complaints } = personOf(view, scene)
      await scene.show(page)
      await page.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' })
      const barriers = VIEWS[view].viewport === WIDE || view === 'narrow' ? await barriersOf(page) : []
      expect({ view, barriers, overflow: await overflowOf(page), complaints }).toEqual({
        view,
        barriers: [],
        overflow: 0,
        complaints: [],
      })
      if (PICTURES && (PICTURED.has(`${name}-${view}`) || (PICTURED.has(name) && SCHEMES.has(view)))) {
        const file = new URL(`pictures/${name}-${view}.webp`, import.meta.url)
        writeFileSync(file, await pictureOf(page))
      }
    }
  })

  test('the check itself finds a violation', async () => {
    const { page, close } = await visitor(browser)
    await page.setContent('<main><input><p style="color:#999;background:#fff">Hardly to be read</p></main>')
    const barriers = (await barriersOf(page)).map(barrier => barrier.split(':')[0])
    expect(barriers).toEqual(expect.arrayContaining(['label', 'color-contrast']))
    await close()
  })

  test('every scene is tested', () => {
    expect(stage.scenes.map(scene => scene.name)).toEqual(NAMES)
  })
})
