import { expect, test } from 'vitest'
import { startSignIn } from '../../support/signed-in.ts'

const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

test('every page and asset answers HEAD as GET, without a body', async () => {
  const { signedIn, browser } = await startSignIn()
  const ada = await signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  const { body } = await ada.call('POST', '/workspaces/ws_1/keys', {
    name: 'importer',
    scopes: ['files:read'],
  })
  const [workspace, key] = ['/workspaces/ws_1', `/workspaces/ws_1/keys/${body.key.id}`]
  const keyPages = ['', '/rotate', '/revoke', '/suspend', '/edit', '/issued'].map(end => `${key}${end}`)
  const own = [
    '',
    '/keys',
    '/keys/new',
    '/audit',
    '/audit/entries.csv',
    '/api',
    '/api/openapi.json',
    '/usage',
    '/refusals',
    '/refusals/entries.csv',
    '/x',
  ]
  const pages = [
    '/',
    '/workspaces',
    '/keys',
    '/usage',
    '/find-key',
    '/people',
    '/tokens',
    '/sign-in',
    '/nothing',
  ]
  const all = [...pages, ...own.map(end => `${workspace}${end}`), ...keyPages, '/workspaces/ws_2/keys']
  const { text } = await ada.browser.visit('/workspaces/ws_1/keys')
  const assets = [...text.matchAll(/(?:src|href)="(\/assets\/[^"]*)"/g)].map(([, path = '']) => path)
  const statuses = new Set<number>()
  for (const visitor of [ada.browser, browser()]) {
    for (const path of [...all, ...assets]) {
      const get = await visitor.send('GET', path, BROWSER)
      const head = await visitor.send('HEAD', path, BROWSER)
      expect([path, head.status, head.text]).toEqual([path, get.status, ''])
      for (const name of ['content-type', 'location', 'cache-control', 'content-security-policy']) {
        expect([path, name, head.headers[name]]).toEqual([path, name, get.headers[name]])
      }
      statuses.add(head.status)
    }
  }
  expect([...statuses].sort()).toEqual([200, 303, 403, 404])
})

test('a HEAD signs no one in', async () => {
  const { browser } = await startSignIn()
  const { status, headers } = await browser().send('HEAD', '/sign-in/callback?code=x&state=y', BROWSER)
  expect([status, headers['set-cookie']]).toEqual([404, undefined])
})
