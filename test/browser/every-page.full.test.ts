import { writeFileSync } from 'node:fs'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  barriersOf,
  launchBrowser,
  overflowOf,
  pictureOf,
  type Visitor,
  visitor,
} from '../support/browser.ts'
import { CHROMIUM, has } from '../support/tools.ts'
import { type Control, controlsOf, unlikeDesign } from './design/controls.ts'
import { startDesign } from './design/design-server.ts'
import { NARROW, VIEW_NAMES, VIEWS, type View } from './design/views.ts'
import { type Scene, type SceneVisitor, type Stage, setStage } from './scenes.ts'

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
  'keys-selected',
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
  'usage-24h',
  'usage-two-days',
  'usage-none',
  'limits',
  'refusals',
  'refusals-no-match',
  'refusals-filtered',
  'refusals-problems',
  'refusals-of-all',
  'api',
  'not-found',
  'secret',
  'issued-already',
  'audit',
  'audit-filtered',
  'audit-problems',
  'deliveries',
  'webhook-none',
  'webhook-problem',
  'webhook-secret',
  'webhook',
  'all-keys',
  'all-usage',
  'all-audit',
  'all-refusals',
  'all-limits',
  'plans',
  'plan',
  'plan-confirmed',
  'plan-changed',
  'token-new',
  'token-secret',
  'token-revoke',
  'tokens',
  'people',
  'people-end',
  'keys-changed',
  'revoked',
  'revoked-silent',
]

describe.skipIf(!has(CHROMIUM))('every page is accessible, and its controls are as designed', () => {
  let browser: Browser
  let stage: Stage
  /** Each kind of visitor, with JavaScript and without. */
  const people = new Map<string, Visitor>()
  const design = new Map<View, readonly Control[]>()
  beforeAll(async () => {
    browser = await launchBrowser()
    stage = await setStage()
    await admit('stranger', null)
    await admit('manager', stage.site.signInUrl)
    await admit('administrator', stage.site.administratorUrl)
    await readDesign()
  })
  afterAll(async () => {
    await browser?.close()
    await stage?.stop()
  })

  /** @param signInUrl null: without signing in */
  async function admit(who: SceneVisitor, signInUrl: string | null): Promise<void> {
    const first = await visitor(browser)
    if (signInUrl !== null) await first.page.goto(signInUrl)
    const storageState = await first.context.storageState()
    await first.close()
    people.set(`script ${who}`, await visitor(browser, { storageState }))
    const withoutScript = { storageState, viewport: NARROW, javaScriptEnabled: false }
    people.set(`none ${who}`, await visitor(browser, withoutScript))
  }

  async function readDesign(): Promise<void> {
    const { origin, stop } = await startDesign()
    const { page, close } = await visitor(browser)
    await page.goto(origin)
    // A line that is open looks like one that the pointer is over.
    await page.locator('.entries summary').first().click()
    await page.mouse.move(0, 0)
    for (const view of VIEW_NAMES) {
      await page.setViewportSize(VIEWS[view].size)
      await page.emulateMedia({ colorScheme: VIEWS[view].colorScheme })
      design.set(view, await controlsOf(page))
    }
    await close()
    await stop()
  }

  function personOf(script: 'script' | 'none', { as: who = 'manager' }: Scene): Visitor {
    const person = people.get(`${script} ${who}`)
    if (person === undefined) throw new Error(`There is no such visitor: ${script}`)
    return person
  }

  function sceneOf(name: string): Scene {
    const scene = stage.scenes.find(one => one.name === name)
    if (scene === undefined) throw new Error(`There is no scene ${name}`)
    return scene
  }

  async function showTo({ page }: Visitor, scene: Scene): Promise<void> {
    await scene.show(page)
    await page.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' })
    // What the pointer is over has other colors.
    await page.mouse.move(0, 0)
  }

  test.each(NAMES)('%s', async name => {
    const scene = sceneOf(name)
    const person = personOf('script', scene)
    const { page, pageErrors } = person
    for (const view of VIEW_NAMES) {
      const { size, colorScheme, rules } = VIEWS[view]
      await page.setViewportSize(size)
      await page.emulateMedia({ colorScheme })
      if (view === 'light') await showTo(person, scene)
      const unlike = unlikeDesign(design.get(view) ?? [], await controlsOf(page))
      const barriers = await barriersOf(page, rules)
      expect({ name, view, unlike, barriers, overflow: await overflowOf(page), pageErrors }).toEqual({
        ...{ name, view, unlike: [], barriers: [], overflow: 0, pageErrors: [] },
      })
      if (PICTURES && (PICTURED.has(`${name}-${view}`) || (PICTURED.has(name) && SCHEMES.has(view)))) {
        const file = new URL(`pictures/${name}-${view}.webp`, import.meta.url)
        writeFileSync(file, await pictureOf(page))
      }
    }
    // Where tables have hardly room for their columns.
    await page.setViewportSize({ width: 1120, height: 740 })
    expect(await overflowOf(page)).toBe(0)
    const withoutScript = personOf('none', scene)
    await showTo(withoutScript, scene)
    expect([await overflowOf(withoutScript.page), withoutScript.pageErrors]).toEqual([0, []])
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
