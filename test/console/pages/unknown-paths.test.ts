import { expect, test } from 'vitest'
import { startSignIn } from '../../support/signed-in.ts'

const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
const PATHS = ['/nothing', '/workspacesx', '/assets/nothing.css', '/admin', '/internal/v1/keys/x']

test('a browser gets a page for an unknown path, signed in or not, with the headers of every page', async () => {
  const { signedIn, browser } = await startSignIn()
  const ada = await signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  for (const visitor of [ada.browser, browser()]) {
    for (const path of PATHS) {
      const { status, text, headers } = await visitor.send('GET', path, BROWSER)
      expect([path, status, headers['content-type']]).toEqual([path, 404, 'text/html; charset=utf-8'])
      expect(text).toContain('Page not found')
      expect(headers['content-security-policy']).toContain("default-src 'none'")
    }
  }
})

test('a program gets JSON, and below /admin/v1 browsers do too', async () => {
  const { browser } = await startSignIn()
  for (const path of PATHS) {
    const { status, text } = await browser().send('GET', path, { accept: '*/*' })
    expect([path, status, JSON.parse(text).code]).toEqual([path, 404, 'unknown_path'])
  }
  const { status, text } = await browser().send('GET', '/admin/v1/nothing', BROWSER)
  expect([status, JSON.parse(text).code]).toEqual([401, 'unauthenticated'])
})
