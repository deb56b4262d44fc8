import type { Browser } from 'playwright-core'
import { afterAll, beforeAll } from 'vitest'
import { launchBrowser } from './browser.ts'
import { type ConsoleSite, startConsoleSite } from './console-site.ts'

export interface ConsoleInBrowser {
  readonly browser: Browser
  readonly site: ConsoleSite
}

/** One browser and one console for all tests of a suite. @param onStarted receives them before the first test */
export function useConsoleInBrowser(onStarted: (started: ConsoleInBrowser) => void): void {
  let browser: Browser | undefined
  let site: ConsoleSite | undefined
  beforeAll(async () => {
    browser = await launchBrowser()
    site = await startConsoleSite()
    onStarted({ browser, site })
  })
  afterAll(async () => {
    await browser?.close()
    await site?.stop()
  })
}
