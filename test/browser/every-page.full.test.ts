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
import { type Scene, type Stage, setStage } from './scenes.ts'

const WIDE = { width: 1120, height: 700 }
const NARROW = { width: 360, height: 740 }
/** One page, shown once and then looked at in each way. In the dark the same elements have other colors. */
const VIEWS = {
  light: { size: WIDE, colorScheme: 'light', rules: 'all' },
  dark: { size: WIDE, colorScheme: 'dark', rules: 'contrast' },
  narrow: { size: NARROW, colorScheme: 'light', rules: 'all' },
} as const
type View = keyof typeof VIEWS
const VIEW_NAMES: readonly View[] = ['light', 'dark', 'narrow']

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
  'usage-none',
  'limits',
  'refusals',
  'refusals-no-match',
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
  'revoked',
  'revoked-silent',
]

describe.skipIf(!has(CHROMIUM))('every page is accessible', () => {
  let browser: Browser
  let stage: Stage
  /** A signed-in and an anonymous visitor, each with JavaScript and without. */
  const people = new Map<string, Visitor>()
  beforeAll(async () => {
    browser = await launchBrowser()
    stage = await setStage()
    const first = await visitor(browser)
    await first.page.goto(stage.site.signInUrl)
    const storageState = await first.context.storageState()
    await first.close()
    for (const signedOut of [true, false]) {
      const options = signedOut ? {} : { storageState }
      people.set(`script ${signedOut}`, await visitor(browser, options))
      const withoutScript = { ...options, viewport: NARROW, javaScriptEnabled: false }
      people.set(`none ${signedOut}`, await visitor(browser, withoutScript))
    }
  })
  afterAll(async () => {
    await browser?.close()
    await stage?.stop()
  })

  function personOf(script: 'script' | 'none', { signedOut = false }: Scene): Visitor {
    const person = people.get(`${script} ${signedOut}`)
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
      const barriers = await barriersOf(page, rules)
      expect({ view, barriers, overflow: await overflowOf(page), pageErrors }).toEqual({
        view,
        barriers: [],
        overflow: 0,
        pageErrors: [],
      })
      if (PICTURES && (PICTURED.has(`${name}-${view}`) || (PICTURED.has(name) && SCHEMES.has(view)))) {
        const file = new URL(`pictures/${name}-${view}.webp`, import.meta.url)
        writeFileSync(file, await pictureOf(page))
      }
    }
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
