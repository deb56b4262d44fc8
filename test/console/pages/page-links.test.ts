import { expect, test } from 'vitest'
import { returnPath } from '../../../src/console/platform/html/paths.ts'
import { type BrowserDouble, unescaped } from '../../support/browser-double.ts'
import { startSignIn } from '../../support/signed-in.ts'

const MAX_PAGES = 200
const CONFIG = { administratorClaim: 'roles', administratorValue: 'admin' }

/** Addresses on a page that a browser loads or a person can open. */
const linksIn = (text: string) =>
  [...text.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, link = '']) => unescaped(link))

const anchorsIn = (text: string) => new Set([...text.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id))

test('every link of every page that an administrator can reach leads somewhere, anchors included', async () => {
  const site = await startSignIn({
    signIn: { oidc: CONFIG },
    limits: { plans: { business: { policies: [] } } },
  })
  const { browser, call } = await site.signedIn({ sub: 'ada', roles: ['admin'], workspaces: ['ws_1'] })
  const body = { scopes: ['files:read'], description: 'for the links', plan: 'business' }
  const issue = (name: string) => call('POST', '/workspaces/ws_1/keys', { ...body, name })
  const [kept, suspended, revoked] = [await issue('kept'), await issue('suspended'), await issue('revoked')]
  await call('POST', `/keys/${kept.body.key.id}/rotate`, {})
  await call('POST', `/keys/${suspended.body.key.id}/suspend`)
  await call('POST', `/keys/${revoked.body.key.id}/revoke`)

  await call('POST', '/tokens', { name: 'ci', permissions: ['keys:read'], expiresInDays: 1 })

  const { broken, visited } = await crawl(browser, ['/', '/workspaces/ws_1/keys'])
  expect(broken).toEqual([])
  expect(visited.size).toBeGreaterThan(20)
  expect(visited.size).toBeLessThan(MAX_PAGES)
  const forgotten = [...visited.keys()].flatMap(address => parametersForgotten(address))
  // What the provider calls a person.
  const meant = ['subject']
  expect([...new Set(forgotten)], 'LINK_PARAMETERS of platform/html/paths.ts').toEqual(meant)
})

/** Query parameters that are lost when the session of a person expires, who signs in again and comes back. */
function parametersForgotten(address: string): string[] {
  const [before, after] = [address, returnPath(address)].map(path => new URL(path, 'http://here.invalid'))
  return [...(before?.searchParams.keys() ?? [])].filter(name => after?.searchParams.has(name) !== true)
}

/** Follows links from page to page. @returns the links that lead nowhere, each with its page */
async function crawl(browser: BrowserDouble, starts: readonly string[]) {
  const visited = new Map<string, string>()
  const broken: string[] = []
  const waiting = starts.map(link => ({ link, page: 'the start' }))
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const url = new URL(next.link, browser.origin)
    if (url.origin !== browser.origin || visited.size >= MAX_PAGES) continue
    // Each order combines with each filter.
    if (url.searchParams.has('sort') && url.searchParams.size > 1) continue
    const address = url.pathname + url.search
    let text = visited.get(address)
    if (text === undefined) {
      const visit = await browser.visit(address)
      text = visit.text
      visited.set(address, text)
      if (visit.status !== 200) broken.push(`${next.page}: ${address} is ${visit.status}`)
      const isPage = visit.headers['content-type']?.startsWith('text/html') === true
      if (isPage)
        waiting.push(...linksIn(text).map(link => ({ link: new URL(link, url).href, page: address })))
    }
    if (url.hash !== '' && !anchorsIn(text).has(url.hash.slice(1))) broken.push(`${next.page}: ${url.href}`)
  }
  return { broken, visited }
}
