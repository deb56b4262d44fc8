import { type Browser, chromium } from 'playwright-core'

/** Debian's, without anything that would ask the network for more than a page. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** A real Chromium, in which pages that were left are kept for going back, as people's browsers keep them. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: FLAGS,
    ignoreDefaultArgs: ['--disable-back-forward-cache'],
  })
}
