import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'
import type { ConsoleSite } from './console-site.ts'

/** Debian's Chromium, without features that use the network for anything but the page. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** A real Chromium with its back/forward cache enabled, as users have it. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: FLAGS,
    ignoreDefaultArgs: ['--disable-back-forward-cache'],
  })
}

export interface Visitor {
  readonly context: BrowserContext
  readonly page: Page
  /** Violations of the content security policy and script errors. */
  readonly pageErrors: string[]
  close(): Promise<void>
}

/** Opens a browser context of its own: no cookies, no history. */
export async function visitor(browser: Browser, options: BrowserContextOptions = {}): Promise<Visitor> {
  const context = await browser.newContext({
    viewport: { width: 1180, height: 820 },
    reducedMotion: 'reduce',
    timezoneId: 'UTC',
    ...options,
  })
  // Shorter than the test's own limit, so that the error names what the page waited for.
  context.setDefaultTimeout(40_000)
  const pageErrors: string[] = []
  context.on('weberror', error => pageErrors.push(error.error().message))
  context.on('console', message => {
    const text = message.text()
    if (/Content Security Policy|Refused to/i.test(text)) pageErrors.push(text)
  })
  return { context, page: await context.newPage(), pageErrors, close: () => context.close() }
}

/** Signs in at the provider, which asks for no password, and follows the redirect to the page. */
export async function signIn({ page }: Visitor, { origin }: ConsoleSite, path = '/'): Promise<void> {
  await page.goto(origin + path)
  await page.getByRole('link', { name: 'Sign in with your account' }).click()
  await page.waitForURL(url => url.origin === origin && !url.pathname.startsWith('/sign-in'))
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string
    readonly impact: string
    readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[]
  }[]
}

const RULES = {
  all: { resultTypes: ['violations'] },
  contrast: { resultTypes: ['violations'], runOnly: ['color-contrast'] },
}

/** Serious and critical accessibility violations that axe-core finds, each with its element. */
export async function barriersOf(page: Page, rules: keyof typeof RULES = 'all'): Promise<string[]> {
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(AXE)
  const { violations } = await page.evaluate<AxeResults>(`axe.run(document, ${JSON.stringify(RULES[rules])})`)
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(node => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`))
}

/** Horizontal overflow in pixels. */
export function overflowOf(page: Page): Promise<number> {
  return page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')
}

/** Screenshot of the whole page as JPEG, a quarter of the size of PNG. */
export async function pictureOf(page: Page): Promise<Buffer> {
  const session = await page.context().newCDPSession(page)
  const options = { format: 'webp', quality: 85, captureBeyondViewport: true } as const
  const { data } = await session.send('Page.captureScreenshot', { ...options, clip: await sizeOf(page) })
  await session.detach()
  return Buffer.from(data, 'base64')
}

async function sizeOf(page: Page) {
  const [width, height] = await page.evaluate<[number, number]>(
    '[document.documentElement.clientWidth, document.documentElement.scrollHeight]',
  )
  return { x: 0, y: 0, width, height, scale: 1 }
}
